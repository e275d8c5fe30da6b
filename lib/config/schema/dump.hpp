#pragma once

#include "base/json.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/node.hpp"

#include <cstdint>
#include <string>

// Conversion of typed options back to text: write_options() creates the tree, and these functions
// choose what to show of it as YAML, or write it and its schema as JSON.

namespace trainctl::config {

enum class Comments : std::uint8_t {
  none,
  origins,  // "# mnist.yaml:14", "# override" or "# default" after each value
  help,     // the description of each field above it
};

struct DumpOptions {
  Comments comments = Comments::none;
  const Schema* schema = nullptr;  // of the tree; for Comments::help
  const Vocabulary* vocabulary = nullptr;
};

/// Returns YAML that parse_yaml() and interpolate() read back as the same values.
std::string dump(const Node& tree, const DumpOptions& options = {});

/// How to write `${` in a text: escaped, as in a file, where it would otherwise be a reference; or
/// plain, as in an override that is applied to interpolated values.
enum class References : std::uint8_t { escaped, plain };

/// Returns the value on one line: `[1, 2]`, `{lr: 0.1}`.
std::string flow_text(const Node& node, References references = References::escaped);

/// Returns `written` with the positions of the same values in `loaded`; a value that `loaded` does
/// not contain is a default and gets no position.
Node with_origins(Node written, const Node& loaded);

/// Returns `written` without the values that equal their default. A stage of which only the type
/// remains gets the short form.
Node without_defaults(const Node& written, const Schema& schema, const Vocabulary& vocabulary);

/// Returns the value as JSON: numbers and booleans are typed, `.nan` and `.inf` are text.
Json to_json(const Node& node);

/// Returns the JSON Schema (draft 2020-12) of a file with the fields of `schema`; stages are in
/// $defs.
Json json_schema(const Schema& schema, const Vocabulary& vocabulary);

/// Returns the JSON Schema of one stage in its long form.
Json json_schema(const StageType& stage, const Vocabulary& vocabulary);

}  // namespace trainctl::config
