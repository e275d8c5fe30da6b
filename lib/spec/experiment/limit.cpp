#include "spec/experiment/limit.hpp"

#include <fmt/format.h>

#include <string_view>

namespace trainctl::config {

void Codec<spec::Limit>::read(Reader& reader, const Node& node, const Field& field,
                              spec::Limit& out) {
  const bool has_point =
      node.type == Node::Type::scalar && node.text.find_first_of(".eE") != std::string::npos;
  if (!has_point) {
    std::int64_t batches = 0;
    if (reader.integer(node, field, 0, std::numeric_limits<std::int64_t>::max(), batches))
      out = {.batches = batches};
    return;
  }
  double fraction = 0;
  if (!reader.number(node, field, fraction)) return;
  if (fraction > 1) {
    reader.diagnostics().error(
        node.position,
        fmt::format("'{}' must be a number of batches or a share up to 1.0, found '{}'", field.key,
                    node.text),
        fmt::format("write {:.0f} for a number of batches", fraction));
    return;
  }
  out = {.fraction = fraction};
}

Node Codec<spec::Limit>::write(const spec::Limit& limit) {
  if (limit.batches) return Node::scalar(std::to_string(*limit.batches));
  const std::string text = number_text(limit.fraction);
  return Node::scalar(text.find_first_of(".e") == std::string::npos ? text + ".0" : text);
}

}  // namespace trainctl::config
