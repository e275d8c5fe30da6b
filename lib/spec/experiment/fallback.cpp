#include "spec/experiment/fallback.hpp"

#include "config/schema/dump.hpp"
#include "config/schema/reader.hpp"
#include "config/tree/node.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace trainctl::spec {
namespace {

void add_leaves(const config::Node& map, const FallbackChange& above,
                std::vector<FallbackChange>& out) {
  for (const config::Entry& entry : map.entries) {
    FallbackChange change = above;
    change.text += (above.text.empty() ? "" : ".") + entry.key;
    change.places.insert(change.places.end(), config::split_path(entry.key).size(),
                         entry.key_position);
    if (entry.value.type == config::Node::Type::map) {
      add_leaves(entry.value, change, out);
      continue;
    }
    change.text += "=" + config::flow_text(entry.value, config::References::plain);
    change.places.push_back(entry.value.position);
    out.push_back(std::move(change));
  }
}

void add_changes(const config::Node& part, std::vector<FallbackChange>& out) {
  if (part.type == config::Node::Type::map) return add_leaves(part, {}, out);
  out.push_back({part.text, {part.position}});
}

}  // namespace

config::Position FallbackChange::place_of(int column) const {
  const auto before = static_cast<std::size_t>(std::max(column - 1, 0));
  const std::size_t equals = text.find('=');
  if (before >= equals) return places.back();
  const auto dots = static_cast<std::size_t>(std::ranges::count(text.substr(0, before), '.'));
  return places[std::min(dots, places.size() - 1)];
}

std::vector<FallbackChange> changes_of(const config::Node& entry) {
  std::vector<FallbackChange> changes;
  if (entry.type != config::Node::Type::list) {
    add_changes(entry, changes);
  } else {
    for (const config::Node& part : entry.items) add_changes(part, changes);
  }
  return changes;
}

}  // namespace trainctl::spec

namespace trainctl::config {

FieldType Codec<spec::Fallback>::type() {
  FieldType text = Codec<std::string>::type();
  text.accepts_map = true;
  FieldType type = Codec<OneOrMore<std::string>>::type();
  type.item = std::make_shared<const FieldType>(std::move(text));
  return type;
}

void Codec<spec::Fallback>::read(Reader& reader, const Node& node, const Field& field,
                                 spec::Fallback& out) {
  const std::vector<Node> parts = node.type == Node::Type::list ? node.items : std::vector{node};
  out.values.clear();
  for (const Node& part : parts) {
    if (part.type == Node::Type::map) {
      for (spec::FallbackChange& change : spec::changes_of(part))
        out.values.push_back(std::move(change.text));
    } else {
      Codec<std::string>::read(reader, part, field, out.values.emplace_back());
    }
  }
}

Node Codec<spec::Fallback>::write(const spec::Fallback& value) {
  return Codec<OneOrMore<std::string>>::write({value.values});
}

}  // namespace trainctl::config
