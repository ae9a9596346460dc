"""The types in a server's requests to a client, and in their results: roots, sampling, elicitation.

This table continues ``shapes.types``; its names are from ``schema.ts``, too. ``shapes.notation`` explains the
notation.
"""

from typing import Final

INPUT: Final = """
# Requests and results

Root
    uri                string
    name?              string
    _meta?             object                  2025-06-18

ListRootsResult
    roots              Root[]

CreateMessageParams
    messages           SamplingMessage[]
    modelPreferences?  ModelPreferences
    systemPrompt?      string
    includeContext?    'none'|'thisServer'|'allServers'
    temperature?       number
    maxTokens          number
    stopSequences?     string[]
    metadata?          object
    tools?             Tool[]                  2025-11-25
    toolChoice?        ToolChoice              2025-11-25
    task?              TaskMetadata            2025-11-25  2026-07-28

SamplingMessage
    role               Role
    content            SamplingMessageContentBlock                                -           2025-11-25
    content            SamplingMessageContentBlock|SamplingMessageContentBlock[]  2025-11-25
    _meta?             object                  2025-11-25

ModelPreferences
    hints?             ModelHint[]
    costPriority?      0..1
    speedPriority?     0..1
    intelligencePriority?  0..1

ModelHint
    name?              string

ToolChoice
    mode?              'auto'|'required'|'none'

CreateMessageResult
    ...SamplingMessage
    model              string
    stopReason?        string

ElicitParams = ElicitFormParams                -           2025-11-25

ElicitParams by mode                           2025-11-25
    -                  ElicitFormParams
    form               ElicitFormParams
    url                ElicitURLParams

ElicitFormParams
    message            string
    requestedSchema    RequestedSchema
    task?              TaskMetadata            2025-11-25  2026-07-28

ElicitURLParams
    message            string
    url                string
    elicitationId      string                  -           2026-07-28
    task?              TaskMetadata            2025-11-25  2026-07-28

ElicitResult
    action             'accept'|'decline'|'cancel'
    content?           {string|number|boolean}            -           2025-11-25
    content?           {string|number|boolean|string[]}   2025-11-25

# The schema of a form

RequestedSchema
    $schema?           string                  2025-11-25
    type               'object'
    properties         {PrimitiveSchemaDefinition}
    required?          string[]

PrimitiveSchemaDefinition by type
    string             StringOrEnumSchema
    number             NumberSchema
    integer            NumberSchema
    boolean            BooleanSchema
    array              MultiSelectEnumSchema   2025-11-25

StringOrEnumSchema with
    enum               EnumSchema
    oneOf              TitledEnumSchema        2025-11-25
    -                  StringSchema

StringSchema
    title?             string
    description?       string
    minLength?         number
    maxLength?         number
    format?            'email'|'uri'|'date'|'date-time'
    default?           string                  2025-11-25

NumberSchema
    title?             string
    description?       string
    minimum?           number
    maximum?           number
    default?           number                  2025-11-25

BooleanSchema
    title?             string
    description?       string
    default?           boolean

# From 2025-11-25 on the schema has a type of enum without enumNames, so enumNames may have any value.
EnumSchema
    title?             string
    description?       string
    enum               string[]
    enumNames?         string[]                -           2025-11-25
    default?           string                  2025-11-25

TitledEnumSchema
    title?             string
    description?       string
    oneOf              TitledChoice[]
    default?           string

MultiSelectEnumSchema
    title?             string
    description?       string
    minItems?          number
    maxItems?          number
    items              MultiSelectItems
    default?           string[]

MultiSelectItems with
    anyOf              TitledItems
    -                  UntitledItems

UntitledItems
    type               'string'
    enum               string[]

TitledItems
    anyOf              TitledChoice[]

TitledChoice
    const              string
    title              string

# Input requests in results, and the responses in the repeated request: 2026-07-28

InputRequiredResult
    inputRequests?     {InputRequest}
    requestState?      string

InputRequest by method
    roots/list              ListRootsInput
    sampling/createMessage  CreateMessageInput
    elicitation/create      ElicitInput

ListRootsInput
    params?            ListRootsParams

ListRootsParams
    _meta?             object

CreateMessageInput
    params             CreateMessageParams

ElicitInput
    params             ElicitParams

InputResponse with
    action             ElicitResult
    roots              ListRootsResult
    model              CreateMessageResult
"""
