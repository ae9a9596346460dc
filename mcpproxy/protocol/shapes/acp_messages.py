"""The params and the results of ACP's methods in both versions, as text.

``shapes.notation`` explains the notation. The types are in ``shapes.acp_setup`` and ``shapes.acp_work``.
Params or a result without a block may have any value.

If an optional member has a wrong value, a reader uses the default (``x-deserialize-default-on-error``). A
sender of ``null`` asks for the default, too. So all optional members may be ``null``, except those of an MCP
server, which are read strictly, and the ``properties`` of a form.

Source: ``schema.json`` of each version, https://github.com/agentclientprotocol/agent-client-protocol
"""

from typing import Final

ACP_MESSAGES: Final = """
# The handshake. Checks in checks.acp judge protocolVersion, the names of client and agent, and stopReason.

initialize params
    clientCapabilities??       ClientCapabilities     -      acp-2
    capabilities??             ClientCapabilities     acp-2

initialize result
    agentCapabilities??        AgentCapabilities      -      acp-2
    capabilities??             AgentCapabilities      acp-2
    authMethods??              AuthMethod[]

authenticate params
    methodId                   string

auth/login params
    methodId                   string

# Sessions. Agents of version 1 may answer null where no member of the result is required.

session/new params
    ...Setup
    mcpServers                 McpServer[]            -      acp-2
    mcpServers??               McpServer[]            acp-2

session/load params
    sessionId                  string
    ...Setup
    mcpServers                 McpServer[]

session/resume params
    sessionId                  string
    ...Setup
    mcpServers??               McpServer[]
    replayFrom??               Tagged                 acp-2

session/new result
    sessionId                  string
    ...Offer

session/load result = Offer|null
session/resume result = Offer|null

# Lists, modes and options

session/list params
    cwd??                      string
    cursor??                   string

session/list result
    sessions                   SessionInfo[]
    nextCursor??               string

session/close params
    sessionId                  string

session/delete params
    sessionId                  string

session/cancel params
    sessionId                  string

session/set_mode params
    sessionId                  string
    modeId                     string

session/set_config_option params
    sessionId                  string
    configId                   string
    type                       string                 acp-2
    value                      string|boolean         -      acp-2
    value                      any                    acp-2

session/set_config_option result
    configOptions              ConfigOption[]

# Content

session/prompt params
    sessionId                  string
    prompt                     ContentBlock[]

# Session updates

session/update params
    sessionId                  string
    update                     SessionUpdate

# Permissions

session/request_permission params
    sessionId                  string
    toolCall                   ToolCallUpdate         -      acp-2
    title                      string                 acp-2
    description??              string                 acp-2
    subject??                  PermissionSubject      acp-2
    options                    PermissionOption[]     -      acp-2
    options                    PermissionOption[1..]  acp-2

session/request_permission result
    outcome                    Outcome

# Files and terminals

fs/read_text_file params
    sessionId                  string
    path                       string
    line??                     integer
    limit??                    count

fs/read_text_file result
    content                    string

fs/write_text_file params
    sessionId                  string
    path                       string
    content                    string

terminal/create params
    sessionId                  string
    command                    string
    args??                     string[]
    env??                      Pair[]
    cwd??                      string
    outputByteLimit??          count

terminal/create result
    terminalId                 string

terminal/output params
    ...InTerminal

terminal/release params
    ...InTerminal

terminal/wait_for_exit params
    ...InTerminal

terminal/kill params
    ...InTerminal

terminal/output result
    output                     string
    truncated                  boolean
    exitStatus??               ExitStatus

terminal/wait_for_exit result = ExitStatus|null

# Elicitations

elicitation/create params by mode
    form                       FormElicitation
    url                        UrlElicitation
    *                          Elicitation

elicitation/create result by action
    accept                     Accepted
    *                          Action

elicitation/complete params
    elicitationId              string

# Cancellation

$/cancel_request params
    requestId                  CancelledId
"""
