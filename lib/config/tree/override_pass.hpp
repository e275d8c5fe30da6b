#pragma once

#include "config/diagnostics.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/node.hpp"

#include <string>
#include <vector>

namespace trainctl::config {

/// What an override below a default finds there. Null: nothing.
struct Grammar {
  const Schema* schema = nullptr;
  const Vocabulary* vocabulary = nullptr;
};

/// Changes the tree as the command line says, in order: `a.b=c` sets, `+a.b=c` adds what must not
/// be there, `++a.b=c` adds or sets, `~a.b` deletes what must be there, `a.0.b` goes into a list.
/// The value is YAML. A stage in its short form becomes a map where an override goes below it; a
/// new `type` drops the options that the file gave the old one. Where the way leads through a stage
/// or a list that only the defaults name, it is written into the tree first. Whether a key exists
/// is the schema's to say: the reader reports it at the override.
void apply_overrides(Node& tree, const std::vector<std::string>& overrides,
                     Diagnostics& diagnostics, const Grammar& grammar = {});

}  // namespace trainctl::config
