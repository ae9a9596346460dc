"""The types that params and results consist of, in every revision, as text.

``shapes.notation`` explains the notation. The names are those of the specification, if it names the type.
The types in a server's requests to a client are in ``shapes.input_types``.

Source: ``schema.ts`` of each revision, with the ranges in its ``@minimum`` and ``@maximum``. The JSON Schema
that is generated from ``schema.ts`` is stricter in some places (integers for numbers); it is not followed.
"""

from typing import Final

TYPES: Final = """
# The text of the base protocol says that a numeric id is an integer. Other numbers, except ttlMs, may have a
# fraction.
Id = string|integer
Role = 'user'|'assistant'
LoggingLevel = 'debug'|'info'|'notice'|'warning'|'error'|'critical'|'alert'|'emergency'

# _meta

RequestMeta
    progressToken?                              Id
    io.modelcontextprotocol/protocolVersion     string                 2026-07-28
    io.modelcontextprotocol/clientCapabilities  ClientCapabilities     2026-07-28
    io.modelcontextprotocol/clientInfo?         Implementation         2026-07-28
    io.modelcontextprotocol/logLevel?           LoggingLevel           2026-07-28

NotificationMeta
    io.modelcontextprotocol/subscriptionId?     Id                     2026-07-28

ResultMeta
    io.modelcontextprotocol/serverInfo?         Implementation         2026-07-28

SubscriptionsListenResultMeta
    ...ResultMeta
    io.modelcontextprotocol/subscriptionId      Id

# Implementations and their capabilities

Implementation
    name               string
    version            string
    title?             string                  2025-06-18
    description?       string                  2025-11-25
    websiteUrl?        string                  2025-11-25
    icons?             Icon[]                  2025-11-25

Icon
    src                string
    mimeType?          string
    sizes?             string[]
    theme?             'light'|'dark'

ClientCapabilities
    experimental?      {object}
    roots?             RootsCapability
    sampling?          SamplingCapability
    elicitation?       ElicitationCapability   2025-06-18
    tasks?             ClientTasksCapability   2025-11-25  2026-07-28
    extensions?        {object}                2026-07-28

RootsCapability
    listChanged?       boolean                 -           2026-07-28

SamplingCapability
    context?           object                  2025-11-25
    tools?             object                  2025-11-25

ElicitationCapability
    form?              object                  2025-11-25
    url?               object                  2025-11-25

ClientTasksCapability
    list?              object
    cancel?            object
    requests?          ClientTaskRequests

ClientTaskRequests
    sampling?          SamplingTaskRequests
    elicitation?       ElicitationTaskRequests

SamplingTaskRequests
    createMessage?     object

ElicitationTaskRequests
    create?            object

ServerCapabilities
    experimental?      {object}
    logging?           object
    completions?       object                  2025-03-26
    prompts?           ListCapability
    resources?         ResourcesCapability
    tools?             ListCapability
    tasks?             ServerTasksCapability   2025-11-25  2026-07-28
    extensions?        {object}                2026-07-28

ListCapability
    listChanged?       boolean

ResourcesCapability
    subscribe?         boolean
    listChanged?       boolean

ServerTasksCapability
    list?              object
    cancel?            object
    requests?          ServerTaskRequests

ServerTaskRequests
    tools?             ToolTaskRequests

ToolTaskRequests
    call?              object

# Content

Annotations
    audience?          Role[]
    priority?          0..1
    lastModified?      string                  2025-06-18

ContentBlock by type
    text               TextContent
    image              ImageContent
    audio              AudioContent            2025-03-26
    resource_link      ResourceLink            2025-06-18
    resource           EmbeddedResource

SamplingMessageContentBlock by type
    text               TextContent
    image              ImageContent
    audio              AudioContent            2025-03-26
    tool_use           ToolUseContent          2025-11-25
    tool_result        ToolResultContent       2025-11-25

TextContent
    text               string
    annotations?       Annotations
    _meta?             object                  2025-06-18

ImageContent
    data               string
    mimeType           string
    annotations?       Annotations
    _meta?             object                  2025-06-18

AudioContent
    data               string
    mimeType           string
    annotations?       Annotations
    _meta?             object                  2025-06-18

ResourceLink
    ...Resource

EmbeddedResource
    resource           ResourceContents
    annotations?       Annotations
    _meta?             object                  2025-06-18

ToolUseContent
    id                 string
    name               string
    input              object
    _meta?             object

ToolResultContent
    toolUseId          string
    content            ContentBlock[]
    structuredContent? object                  -           2026-07-28
    isError?           boolean
    _meta?             object

# Tools

Tool
    name               string
    title?             string                  2025-06-18
    description?       string
    inputSchema        InputSchema
    outputSchema?      OutputSchema            2025-06-18
    annotations?       ToolAnnotations         2025-03-26
    execution?         ToolExecution           2025-11-25  2026-07-28
    icons?             Icon[]                  2025-11-25
    _meta?             object                  2025-06-18

InputSchema
    $schema?           string                  2025-11-25
    type               'object'
    properties?        {object}                -           2026-07-28
    required?          string[]                -           2026-07-28

OutputSchema
    ...InputSchema                             -           2026-07-28
    $schema?           string                  2026-07-28

ToolAnnotations
    title?             string
    readOnlyHint?      boolean
    destructiveHint?   boolean
    idempotentHint?    boolean
    openWorldHint?     boolean

ToolExecution
    taskSupport?       'forbidden'|'optional'|'required'

CallToolResult
    content            ContentBlock[]
    structuredContent? object                  2025-06-18  2026-07-28
    isError?           boolean

# Resources

Resource
    uri                string
    name               string
    title?             string                  2025-06-18
    description?       string
    mimeType?          string
    annotations?       Annotations
    size?              number
    icons?             Icon[]                  2025-11-25
    _meta?             object                  2025-06-18

ResourceTemplate
    uriTemplate        string
    name               string
    title?             string                  2025-06-18
    description?       string
    mimeType?          string
    annotations?       Annotations
    icons?             Icon[]                  2025-11-25
    _meta?             object                  2025-06-18

ResourceContents with
    text               TextResourceContents
    blob               BlobResourceContents

TextResourceContents
    uri                string
    mimeType?          string
    text               string
    _meta?             object                  2025-06-18

BlobResourceContents
    uri                string
    mimeType?          string
    blob               string
    _meta?             object                  2025-06-18

ReadResourceResult
    ...Cacheable                               2026-07-28
    contents           ResourceContents[]

# Prompts and completion

Prompt
    name               string
    title?             string                  2025-06-18
    description?       string
    arguments?         PromptArgument[]
    icons?             Icon[]                  2025-11-25
    _meta?             object                  2025-06-18

PromptArgument
    name               string
    title?             string                  2025-06-18
    description?       string
    required?          boolean

PromptMessage
    role               Role
    content            ContentBlock

GetPromptResult
    description?       string
    messages           PromptMessage[]

Reference by type
    ref/prompt         PromptReference
    ref/resource       ResourceTemplateReference

PromptReference
    name               string
    title?             string                  2025-06-18

ResourceTemplateReference
    uri                string

CompleteArgument
    name               string
    value              string

CompleteContext
    arguments?         {string}

Completion
    values             string[]
    total?             number
    hasMore?           boolean

# Tasks of 2025-11-25

TaskMetadata
    ttl?               number

Task
    taskId             string
    status             'working'|'input_required'|'completed'|'failed'|'cancelled'
    statusMessage?     string
    createdAt          string
    lastUpdatedAt      string
    ttl                number|null
    pollInterval?      number

CreateTaskResult
    task               Task

# 2026-07-28

Cacheable
    ttlMs              count
    cacheScope         'public'|'private'

SubscriptionFilter
    toolsListChanged?      boolean
    promptsListChanged?    boolean
    resourcesListChanged?  boolean
    resourceSubscriptions? string[]
"""
