"""Any recording opened: calls, judgement, reports, copies, files for other programs."""
