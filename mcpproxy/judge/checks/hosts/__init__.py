"""What hosts refuse, lose or change although the protocol allows it. Off unless hosts are named."""
