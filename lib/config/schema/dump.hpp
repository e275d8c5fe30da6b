#pragma once

#include "config/schema/schema.hpp"
#include "config/tree/node.hpp"

#include <cstdint>
#include <string>

// From typed options back to YAML: write_options() gives the tree, these choose what of it is shown
// and how.

namespace trainctl::config {

enum class Comments : std::uint8_t {
  none,
  origins,  // "# mnist.yaml:14", "# override", "# default" beside each value
  help,     // each field's sentence above it
};

struct DumpOptions {
  Comments comments = Comments::none;
  const Schema* schema = nullptr;  // of the tree; for help
  const Vocabulary* vocabulary = nullptr;
};

/// YAML that parse_yaml and interpolate read back to the same values.
std::string dump(const Node& tree, const DumpOptions& options = {});

/// `${` in a text: as a file has it, where it would be a reference, or as an override has it that
/// is laid over what was interpolated before.
enum class References : std::uint8_t { escaped, plain };

/// The value in one line: `[1, 2]`, `{lr: 0.1}`.
std::string flow_text(const Node& node, References references = References::escaped);

/// `written` with the places of the same values in `loaded`; what `loaded` does not name has none:
/// a default.
Node with_origins(Node written, const Node& loaded);

/// `written` without what equals the default; a stage that is left with its type alone takes the
/// short form.
Node without_defaults(const Node& written, const Schema& schema, const Vocabulary& vocabulary);

}  // namespace trainctl::config
