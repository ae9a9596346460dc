// @ts-check
/**
 * The JSON values that the server of the page sends. `../json_rows.py` makes them.
 *
 * @typedef {"error" | "warning" | "info"} Severity
 *
 * @typedef {object} Call One row: a request with its answer, or an orphan, which belongs to no request.
 * @property {number} number
 * @property {string} kind
 * @property {number} frame
 * @property {number | null} answer
 * @property {string} id the id of the request as JSON
 * @property {number} session
 * @property {"client" | "server"} sender
 * @property {string} method
 * @property {string | null} target the tool, the prompt or the resource
 * @property {string} outcome
 * @property {number | null} error_code
 * @property {number} started_ms since the start of the recording
 * @property {number | null} latency_ms
 * @property {number | null} waited_ms how long a call without an answer has waited
 * @property {boolean} closed whether its HTTP exchange ended without an answer, so that none can come
 * @property {number} request_bytes
 * @property {number} answer_bytes
 * @property {string} arguments
 * @property {string} result
 * @property {string} progress how far the call came by its last progress notification; empty if it had none
 * @property {string} said the result, or how far the call came if that is known and the result says nothing; without the status of HTTP that the outcome has
 * @property {string} cause why it got no result, in a few words, beyond its outcome and its result
 * @property {string} intervention what mcpproxy did to its messages because the user asked for it, in words
 * @property {number} findings
 * @property {Severity | null} severity of the worst
 * @property {number} worst_findings how many of them have that severity
 * @property {number} parent the row to which a request or an update of the server belongs, or 0
 *
 * @typedef {object} Below The folders with recordings below a folder that has none.
 * @property {{path: string, recordings: number, command: string}[]} folders the first, each with the command that opens its page
 * @property {number} more how many others there are
 *
 * @typedef {object} Bar A row on the timeline, or successive rows that are too narrow to be drawn one by one.
 * @property {number} lane -1 for rows that are no requests
 * @property {number} from_ms since the start of the recording
 * @property {number} to_ms
 * @property {number} count
 * @property {number} errors
 * @property {Call | null} call the row, if it is one
 *
 * @typedef {object} Lanes
 * @property {number} total how many rows there are in the range
 * @property {number} lanes how many calls overlap at most
 * @property {number} left_out how many calls overlap with too many others to have a lane
 * @property {Bar[]} bars
 *
 * @typedef {object} Arrow One message of a sequence diagram.
 * @property {number} at_ms since the start of the recording
 * @property {number} row
 * @property {"client" | "server"} sender
 * @property {string} text
 * @property {string | null} outcome that of the call, if the message is its answer, or if there is none
 * @property {string} mermaid its line in the language of Mermaid
 *
 * @typedef {object} Sequence
 * @property {string[]} participants the lines that name the client and the server
 * @property {Arrow[]} arrows
 * @property {number} left_out how many calls are not in it
 *
 * @typedef {object} Part A record that belongs to a call.
 * @property {string} role
 * @property {number | null} seq
 * @property {number} at_ms
 * @property {number} row
 * @property {string} sender
 * @property {string} summary what it says, without the method if the role says it
 * @property {number} lines how many successive lines on stderr it is
 * @property {string} preview the last of these lines, or the one that probably says what went wrong
 * @property {string | null} text what was recorded, as text; its beginning, or the end of stderr, if `length` is greater
 * @property {number} length the number of characters of the whole text
 * @property {[string, string][]} fields the first line and the fields of an HTTP head, or the fields of an SSE event
 *
 * @typedef {object} Finding
 * @property {string} rule
 * @property {Severity} severity
 * @property {number} frame
 * @property {number} row
 * @property {string} message
 * @property {string} broken_by
 * @property {string} pointer
 * @property {string} name
 * @property {string} summary
 * @property {string} sentence
 * @property {string} instead
 * @property {string} link the place in the specification; empty if `source` is not one
 * @property {string} source the place that the recording names
 * @property {string} more how many more say the same and where, in words; empty if none do
 * @property {{frame: number, pointer: string}[]} others what those point to
 *
 * @typedef {object} Detail
 * @property {Call} call
 * @property {Part[]} parts
 * @property {string} cause why the call failed or has no answer, in words
 * @property {number} cause_row the other row that the cause names, or 0
 * @property {number} left_out how many records in the middle of the parts are left out
 * @property {Finding[]} findings
 * @property {number[]} inner
 *
 * @typedef {object} Recording
 * @property {string} id
 * @property {string} path
 * @property {string} label its label, with the server if the label says nothing; without one the server, the command or URL, or the name of its file
 * @property {string} client
 * @property {string} server
 * @property {string} transport
 * @property {string} started_at
 * @property {number} started_ms milliseconds since 1970
 * @property {number | null} duration_ms
 * @property {boolean} running
 * @property {boolean} is_empty whether it has ended without a message
 * @property {boolean} has_not_begun whether its server failed before any message
 * @property {string} model of a model's interface: the dialect that the user named, or `any`; empty before an MCP server
 * @property {string} state running, starting, ended, cut or unreadable
 * @property {string} ended how it ended, in words
 * @property {string | null} failed its failed and unanswered calls in words, "2 of 7 calls failed, 1 unanswered", or that its server failed before any message; empty if there is none, null if that is not known
 * @property {string} lost the worst of them: failed, refused, unanswered, cancelled, unreadable, or declined if all were; empty if there is none
 * @property {string} searched the text in which words are looked for that choose recordings, in lower case
 * @property {Partial<Record<Severity, number>> | null} findings how many it has of each severity; null if that is not known
 *
 * @typedef {object} Run The recordings of the sessions that one client process had.
 * @property {string} title
 * @property {string} certainty certain, likely or guess
 * @property {string} why
 * @property {string[]} recordings
 *
 * @typedef {object} Summary
 * @property {Recording} recording
 * @property {boolean} running
 * @property {number} rows
 * @property {{failed: number, refused: number, unanswered: number, unreadable: number, cancelled: number}} calls
 * @property {Partial<Record<Severity, number>>} findings how many it has of each severity
 * @property {string[]} notes what is missing from the recording
 * @property {string} target the command or the URL of the server
 * @property {string} cwd the folder that the command ran in
 * @property {boolean} is_own whether only this user can have written the recording
 * @property {boolean} may_send
 * @property {string} not_sent_because why calls of this recording cannot be sent again; empty without --allow-send
 * @property {{number: number, name: string, client: string, server: string, revision: string, protocol: string, rows: number, findings: number}[]} sessions
 *
 * @typedef {{rule: string, severity: Severity, message: string}} Worst The worst of several findings.
 *
 * @typedef {{recording: string, whole: number, worst: Worst}} FoundSession How many findings pass a filter that are about a whole session.
 *
 * @typedef {{recording: string, ended: string}} FoundFailure How a session ended whose server failed before any message.
 *
 * @typedef {Call & {recording: string, cause: string, worst: Worst | null, found: string[]}} FoundCall `cause` says why a call has no result; it is empty if it has one. `worst` is the worst finding of a row; null if there is none. `found` is the text that was searched for, if the row does not show it, between what is before and after it; empty if there is none
 *
 * @typedef {object} FoundRows What passes a filter in all recordings, that of the latest recording first.
 * @property {(FoundCall | FoundSession | FoundFailure)[]} rows
 * @property {number} searched how many recordings were searched to their end, or are known to have nothing that passes
 * @property {number} recordings how many there are
 * @property {number} unreadable how many of the searched ones are damaged, or could not be read
 * @property {{recording: string, after: number} | null} next where the search goes on; null at its end
 *
 * @typedef {object} HeldMessage A message that a breakpoint holds.
 * @property {number} number
 * @property {"client" | "server"} sender
 * @property {string} kind request, answer, notification, batch or not-a-message
 * @property {string} method
 * @property {string | null} target
 * @property {string | null} id the id as JSON
 * @property {number} bytes
 * @property {string} rule the breakpoint
 * @property {{rule: string, message: string}[]} findings what is wrong with the message, if the breakpoint asks for it
 * @property {string} preview the beginning of the message
 * @property {number} held_ms how long it has been held
 * @property {number} left_ms how long the breakpoint still holds it
 * @property {string} then what happens then: pass, drop or error
 *
 * @typedef {object} HeldSession
 * @property {string} recording
 * @property {string} problem why the session does not answer; empty if it does
 * @property {HeldMessage[]} held
 *
 * @typedef {object} HeldContext What a recording knows about the messages that its session holds.
 * @property {Record<number, {call: number, started_ms: number, preview: string}>} calls by the number of the message
 * @property {Record<"client" | "server", {seconds: number | null, why: string}>} limits how long each peer probably waits for an answer
 */
export {};
