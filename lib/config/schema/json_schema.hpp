#pragma once

#include "base/json.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/node.hpp"

namespace trainctl::config {

/// Returns the value as JSON: numbers and booleans are typed, `.nan` and `.inf` are text.
Json to_json(const Node& node);

/// Returns the JSON Schema (draft 2020-12) of a file with the fields of `schema`; stages are in
/// $defs.
Json json_schema(const Schema& schema, const Vocabulary& vocabulary);

/// Returns the JSON Schema of one stage in its long form.
Json json_schema(const StageType& stage, const Vocabulary& vocabulary);

}  // namespace trainctl::config
