#pragma once

#include "config/tree/node.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// "optimizer.lr" or "metrics.0": the parts between the dots.
std::vector<std::string> split_path(std::string_view path);

/// The index that `part` names in a list; nothing where it is no number or too large.
std::optional<std::size_t> list_index(std::string_view part, std::size_t size);

/// The child of a map or list that `part` names; null if there is none.
const Node* child(const Node& node, std::string_view part);
Node* child(Node& node, std::string_view part);

/// The node at `path` below `root`; null if there is none.
const Node* find_path(const Node& root, std::string_view path);

/// The children's names, for suggestions: keys, or "0", "1" ...
std::vector<std::string> child_names(const Node& node);

/// Whether a scalar can be the short form of a stage: `adam`, not `3` or `true`.
bool is_stage_name(const Node& node);

/// `adam` becomes {type: adam}.
void promote_stage(Node& node);

}  // namespace trainctl::config
