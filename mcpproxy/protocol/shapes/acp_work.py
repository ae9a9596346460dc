"""The types of an ACP session at work: content, session updates, tool calls, permissions, terminals, forms.

``shapes.notation`` explains the notation. A kind of session update that exists only in a draft of the version
has the type ``object``.

Source: see ``shapes.acp_messages``.
"""

from typing import Final

ACP_WORK: Final = """
# Content

ContentBlock by type                                  -      acp-2
    text                       Text
    image                      Image
    audio                      Media
    resource_link              ResourceLink
    resource                   Resource

ContentBlock by type                                  acp-2
    text                       Text
    image                      Image
    audio                      Media
    resource_link              ResourceLink
    resource                   Resource
    *                          Tagged

Text
    text                       string
    annotations??              Annotations

Media
    data                       string
    mimeType                   string
    annotations??              Annotations

Image
    ...Media
    uri??                      string

ResourceLink
    name                       string
    uri                        string
    title??                    string
    description??              string
    icons??                    Icon[]                 acp-2
    mimeType??                 string
    size??                     integer
    annotations??              Annotations

Icon
    src                        string
    mimeType??                 string
    sizes??                    string[]
    theme??                    string

Resource
    resource                   Contents
    annotations??              Annotations

Contents with
    text                       TextContents
    blob                       BlobContents

TextContents
    uri                        string
    text                       string
    mimeType??                 string

BlobContents
    uri                        string
    blob                       string
    mimeType??                 string

Annotations
    audience??                 Role[]
    lastModified??             string
    priority??                 number

Role = 'assistant'|'user'                             -      acp-2
Role = string                                         acp-2

# Session updates

SessionUpdate by sessionUpdate
    user_message_chunk         Chunk
    agent_message_chunk        Chunk
    agent_thought_chunk        Chunk
    user_message               MessageUpdate          acp-2
    agent_message              MessageUpdate          acp-2
    agent_thought              MessageUpdate          acp-2
    state_update               StateUpdate            acp-2
    tool_call                  ToolCall               -      acp-2
    tool_call_update           ToolCallUpdate
    tool_call_content_chunk    ToolCallChunk          acp-2
    terminal_update            TerminalUpdate         acp-2
    terminal_output_chunk      TerminalChunk          acp-2
    plan                       Plan                   -      acp-2
    plan_update                object                 -      acp-2
    plan_update                PlanUpdate             acp-2
    plan_removed               object
    current_mode_update        ModeUpdate             -      acp-2
    available_commands_update  CommandsUpdate
    config_option_update       OptionsUpdate
    session_info_update        InfoUpdate
    usage_update               UsageUpdate
    notice                     object
    compaction_update          object
    compaction_summary_chunk   object
    subagent_update            object
    session_message            object
    session_message_chunk      object
    *                          OtherUpdate

OtherUpdate
    sessionUpdate              string

Chunk
    content                    ContentBlock
    messageId??                string                 -      acp-2
    messageId                  string                 acp-2

MessageUpdate
    messageId                  string
    content??                  ContentBlock[]

StateUpdate
    state                      string

Plan
    entries                    PlanEntry[]

PlanUpdate
    plan                       PlanContent

PlanContent by type
    items                      PlanItems
    file                       object
    markdown                   object
    *                          OtherPlan

PlanItems
    ...Plan
    planId                     string

OtherPlan
    ...Tagged
    planId                     string

PlanEntry
    content                    string
    priority                   PlanPriority
    status                     PlanStatus

PlanPriority = 'high'|'medium'|'low'                  -      acp-2
PlanPriority = string                                 acp-2
PlanStatus = 'pending'|'in_progress'|'completed'      -      acp-2
PlanStatus = string                                   acp-2

ModeUpdate
    currentModeId              string

CommandsUpdate
    availableCommands          Command[]

Command
    name                       string
    description                string
    input??                    CommandInput

CommandInput                                          -      acp-2
    hint                       string

CommandInput by type                                  acp-2
    text                       TextInput
    *                          Tagged

TextInput
    hint                       string

OptionsUpdate
    configOptions              ConfigOption[]

InfoUpdate
    title??                    string
    updatedAt??                string

UsageUpdate
    used                       count
    size                       count
    cost??                     Cost

Cost
    amount                     number
    currency                   string

# Tool calls. ACP-014 reports the number of a line that is below 1.

ToolCall
    ...ToolCallUpdate
    title                      string

ToolCallUpdate
    toolCallId                 string
    title??                    string
    kind??                     ToolKind
    status??                   ToolStatus
    content??                  ToolContent[]
    locations??                Location[]

ToolKind = 'read'|'edit'|'delete'|'move'|'search'|'execute'|'think'|'fetch'|'switch_mode'|'other'  -  acp-2
ToolKind = string                                     acp-2
ToolStatus = 'pending'|'in_progress'|'completed'|'failed'  -  acp-2
ToolStatus = string                                   acp-2

ToolCallChunk
    toolCallId                 string
    content                    ToolContent

ToolContent by type                                   -      acp-2
    content                    ContentItem
    diff                       Diff
    terminal                   TerminalItem

ToolContent by type                                   acp-2
    content                    ContentItem
    diff                       Diff
    terminal                   TerminalItem
    *                          Tagged

ContentItem
    content                    ContentBlock

Diff                                                  -      acp-2
    path                       string
    newText                    string
    oldText??                  string

Diff                                                  acp-2
    changes                    Change[]
    patch??                    Patch

Change by operation
    add                        PathChange
    delete                     PathChange
    modify                     PathChange
    move                       PathPairChange
    copy                       PathPairChange
    *                          ChangeHead

ChangeHead
    operation                  string
    fileType??                 string
    mimeType??                 string

PathChange
    ...ChangeHead
    path                       string

PathPairChange
    ...PathChange
    oldPath                    string

Patch
    format                     string
    text                       string

TerminalItem
    terminalId                 string

Location
    path                       string
    line??                     integer

# Permissions

PermissionSubject by type
    tool_call                  ToolCallSubject
    command                    CommandSubject
    *                          Tagged

ToolCallSubject
    toolCall                   ToolCallUpdate

CommandSubject
    command                    string
    cwd                        string
    toolCallId??               string
    terminalId??               string

PermissionOption
    optionId                   string
    name                       string
    kind                       PermissionKind

PermissionKind = 'allow_once'|'allow_always'|'reject_once'|'reject_always'  -  acp-2
PermissionKind = string                               acp-2

Outcome by outcome                                    -      acp-2
    selected                   Selected
    cancelled                  object

Outcome by outcome                                    acp-2
    selected                   Selected
    cancelled                  object
    *                          OtherOutcome

Selected
    optionId                   string

OtherOutcome
    outcome                    string

# Files and terminals

InTerminal
    sessionId                  string
    terminalId                 string

ExitStatus
    exitCode??                 count
    signal??                   string

TerminalUpdate
    terminalId                 string
    command??                  string
    cwd??                      string
    output??                   TerminalOutput
    exitStatus??               ExitStatus

TerminalOutput
    data                       string

TerminalChunk
    terminalId                 string
    data                       string

# Elicitations

Elicitation
    mode                       string
    message                    string

FormElicitation
    ...Elicitation
    requestedSchema            FormSchema

UrlElicitation
    ...Elicitation
    elicitationId              string
    url                        string

FormSchema
    type??                     FormType
    title??                    string
    description??              string
    properties?                {Tagged}
    required??                 string[]

FormType = 'object'

Action
    action                     string

Accepted
    ...Action
    content??                  {Entered}

Entered = string|number|boolean|string[]

CancelledId = string|integer|null
"""
