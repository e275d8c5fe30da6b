#pragma once

#include "base/json.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/node.hpp"

namespace trainctl::config {

/// The value as JSON: numbers and booleans typed, `.nan` and `.inf` as text.
Json to_json(const Node& node);

/// JSON Schema, draft 2020-12, of a file whose top level is `schema`; stages stand in `$defs`.
Json json_schema(const Schema& schema, const Vocabulary& vocabulary);

/// The same of one stage, in its long form.
Json json_schema(const StageType& stage, const Vocabulary& vocabulary);

}  // namespace trainctl::config
