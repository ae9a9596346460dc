"""The types with which an ACP client and an agent set up a session: capabilities, MCP servers, options.

``shapes.notation`` explains the notation.

Source: see ``shapes.acp_messages``.
"""

from typing import Final

ACP_SETUP: Final = """
# The handshake

ClientCapabilities
    fs??                       FileCapabilities       -      acp-2
    terminal??                 boolean                -      acp-2
    session??                  ClientSession          -      acp-2
    auth??                     ClientAuth
    elicitation??              ElicitationModes

FileCapabilities
    readTextFile??             boolean
    writeTextFile??            boolean

ClientSession
    configOptions??            ConfigOptionKinds

ConfigOptionKinds
    boolean??                  object

ClientAuth
    terminal??                 boolean                -      acp-2
    terminal??                 object                 acp-2

ElicitationModes
    form??                     object
    url??                      object

AgentCapabilities
    loadSession??              boolean                -      acp-2
    promptCapabilities??       PromptContent          -      acp-2
    mcpCapabilities??          McpTransports          -      acp-2
    sessionCapabilities??      SessionCapabilities    -      acp-2
    session??                  SessionCapabilities    acp-2
    auth??                     AgentAuth

PromptContent                                         -      acp-2
    image??                    boolean
    audio??                    boolean
    embeddedContext??          boolean

PromptContent                                         acp-2
    image??                    object
    audio??                    object
    embeddedContext??          object

McpTransports                                         -      acp-2
    http??                     boolean
    sse??                      boolean

McpTransports                                         acp-2
    stdio??                    object
    http??                     object

SessionCapabilities
    prompt??                   PromptContent          acp-2
    mcp??                      McpTransports          acp-2
    list??                     object                 -      acp-2
    resume??                   object                 -      acp-2
    close??                    object                 -      acp-2
    delete??                   object
    additionalDirectories??    object

AgentAuth
    logout??                   object                 -      acp-2

AuthMethod                                            -      acp-2
    id                         string
    name                       string
    description??              string

AuthMethod by type                                    acp-2
    terminal                   TerminalLogin
    *                          Login

Login
    type                       string
    methodId                   string
    name                       string
    description??              string

TerminalLogin
    ...Login
    args??                     string[]
    env??                      Pair[]

# Sessions

Setup
    cwd                        string
    additionalDirectories??    string[]

Offer
    modes??                    Modes                  -      acp-2
    configOptions??            ConfigOption[]

Modes
    currentModeId              string
    availableModes             Mode[]

Mode
    id                         string
    name                       string
    description??              string

ConfigOption by type                                  -      acp-2
    select                     SelectOption
    boolean                    BooleanOption

ConfigOption by type                                  acp-2
    select                     SelectOption
    boolean                    BooleanOption
    *                          OptionHead

OptionHead
    id                         string                 -      acp-2
    configId                   string                 acp-2
    type                       string
    name                       string
    description??              string
    category??                 string

SelectOption
    ...OptionHead
    currentValue               string
    options                    Choice[]

BooleanOption
    ...OptionHead
    currentValue               boolean

Choice with
    group                      ChoiceGroup            -      acp-2
    groupId                    ChoiceGroup            acp-2
    value                      PlainChoice

ChoiceGroup
    group                      string                 -      acp-2
    groupId                    string                 acp-2
    name                       string
    options                    PlainChoice[]

PlainChoice
    value                      string
    name                       string
    description??              string

# MCP servers. In version 1 an entry for stdio needs no type, and may have any. The draft of version 1 adds
# the type acp.

McpServer with                                        -      acp-2
    command                    StdioServer
    url                        RemoteServer
    -                          TypedServer

RemoteServer by type
    http                       HttpServer
    sse                        HttpServer

TypedServer by type
    -                          StdioServer
    stdio                      StdioServer
    http                       HttpServer
    sse                        HttpServer
    acp                        Tagged

McpServer by type                                     acp-2
    stdio                      StdioServer
    http                       HttpServer
    *                          Tagged

StdioServer
    name                       string
    command                    string
    args                       string[]               -      acp-2
    args?                      string[]               acp-2
    env                        Pair[]                 -      acp-2
    env?                       Pair[]                 acp-2

HttpServer
    name                       string
    url                        string
    headers                    Pair[]                 -      acp-2
    headers?                   Pair[]                 acp-2

Pair
    name                       string
    value                      string

Tagged
    type                       string

# The list of sessions

SessionInfo
    sessionId                  string
    cwd                        string
    additionalDirectories??    string[]
    title??                    string
    updatedAt??                string
"""
