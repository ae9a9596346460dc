"""The params and the result of every method, in every revision, as text.

``shapes.notation`` explains the notation. The types are in ``shapes.types`` and ``shapes.input_types``. The
first three blocks apply to every request, result and notification, except to the requests that a server makes
inside a result (``INPUT_REQUESTS``). If the block of a method has a row for the same member, that row applies
instead. A method without a block has only the members of the first three blocks.

Source: ``schema.ts`` of each revision.
"""

from typing import Final

MESSAGES: Final = """
request params
    _meta?             RequestMeta             -           2026-07-28
    _meta              RequestMeta             2026-07-28

request result
    _meta?             ResultMeta
    resultType         string                  2026-07-28

notification params
    _meta?             NotificationMeta

# Lifecycle and utilities

initialize params
    protocolVersion    string
    capabilities       ClientCapabilities
    clientInfo         Implementation

initialize result
    protocolVersion    string
    capabilities       ServerCapabilities
    serverInfo         Implementation
    instructions?      string

server/discover result
    ...Cacheable
    supportedVersions  string[]
    capabilities       ServerCapabilities
    instructions?      string

# The schema of 2025-11-25 makes the id optional, but not the params.
notifications/cancelled params!
    requestId          Id                      -           2025-11-25
    requestId?         Id                      2025-11-25  2026-07-28
    requestId          Id                      2026-07-28
    reason?            string

notifications/progress params
    progressToken      Id
    progress           number
    total?             number
    message?           string                  2025-03-26

logging/setLevel params
    level              LoggingLevel

notifications/message params
    level              LoggingLevel
    logger?            string
    data               any

# Tools

tools/list params
    cursor?            string

tools/list result
    ...Cacheable                               2026-07-28
    nextCursor?        string
    tools              Tool[]

tools/call params
    name               string
    arguments?         object
    task?              TaskMetadata            2025-11-25  2026-07-28
    inputResponses?    {InputResponse}         2026-07-28
    requestState?      string                  2026-07-28

tools/call result = CallToolResult             -           2025-11-25

tools/call result with                         2025-11-25  2026-07-28
    content            CallToolResult
    task               CreateTaskResult
    -                  CallToolResult

tools/call result by resultType                2026-07-28
    -                  CallToolResult
    complete           CallToolResult
    input_required     InputRequiredResult
    *                  object

# Resources

resources/list params
    cursor?            string

resources/list result
    ...Cacheable                               2026-07-28
    nextCursor?        string
    resources          Resource[]

resources/templates/list params
    cursor?            string

resources/templates/list result
    ...Cacheable                               2026-07-28
    nextCursor?        string
    resourceTemplates  ResourceTemplate[]

resources/read params
    uri                string
    inputResponses?    {InputResponse}         2026-07-28
    requestState?      string                  2026-07-28

resources/read result = ReadResourceResult     -           2026-07-28

resources/read result by resultType            2026-07-28
    -                  ReadResourceResult
    complete           ReadResourceResult
    input_required     InputRequiredResult
    *                  object

resources/subscribe params
    uri                string

resources/unsubscribe params
    uri                string

notifications/resources/updated params
    uri                string

# Prompts and completion

prompts/list params
    cursor?            string

prompts/list result
    ...Cacheable                               2026-07-28
    nextCursor?        string
    prompts            Prompt[]

prompts/get params
    name               string
    arguments?         {string}
    inputResponses?    {InputResponse}         2026-07-28
    requestState?      string                  2026-07-28

prompts/get result = GetPromptResult           -           2026-07-28

prompts/get result by resultType               2026-07-28
    -                  GetPromptResult
    complete           GetPromptResult
    input_required     InputRequiredResult
    *                  object

completion/complete params
    ref                Reference
    argument           CompleteArgument
    context?           CompleteContext         2025-06-18

completion/complete result
    completion         Completion

# What a server asks of a client

roots/list params
    ...ListRootsParams                         2026-07-28

roots/list result
    ...ListRootsResult

sampling/createMessage params
    ...CreateMessageParams

sampling/createMessage result = CreateMessageResult  -     2025-11-25

sampling/createMessage result with             2025-11-25  2026-07-28
    task               CreateTaskResult
    -                  CreateMessageResult

sampling/createMessage result = CreateMessageResult  2026-07-28

elicitation/create params = ElicitParams

elicitation/create result = ElicitResult       -           2025-11-25

elicitation/create result with                 2025-11-25  2026-07-28
    task               CreateTaskResult
    -                  ElicitResult

elicitation/create result = ElicitResult       2026-07-28

notifications/elicitation/complete params
    elicitationId      string

# Tasks of 2025-11-25

tasks/get params
    taskId             string

tasks/get result
    ...Task

tasks/result params
    taskId             string

tasks/list params
    cursor?            string

tasks/list result
    nextCursor?        string
    tasks              Task[]

tasks/cancel params
    taskId             string

tasks/cancel result
    ...Task

notifications/tasks/status params
    ...Task

# Subscriptions of 2026-07-28

subscriptions/listen params
    notifications      SubscriptionFilter

subscriptions/listen result
    _meta              SubscriptionsListenResultMeta

notifications/subscriptions/acknowledged params
    notifications      SubscriptionFilter
"""
