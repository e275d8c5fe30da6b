#include "config/schema/schema.hpp"

#include <algorithm>

namespace trainctl::config {

const Field* Schema::find(std::string_view key) const {
  const auto found = std::ranges::find(fields, key, &Field::key);
  return found == fields.end() ? nullptr : &*found;
}

std::vector<std::string> Schema::keys() const {
  std::vector<std::string> keys;
  keys.reserve(fields.size());
  for (const Field& field : fields) keys.push_back(field.key);
  return keys;
}

Node write_options(const Schema& schema, const void* options) {
  Node map = schema.inline_stage ? schema.inline_stage->write(options) : Node::map();
  if (map.is_null()) return map;  // no stage was chosen
  for (const Field& field : schema.fields)
    map.entries.push_back({field.key, {}, field.write(options)});
  return map;
}

void Vocabulary::add(StageType type) {
  auto& names = kinds_[type.kind];
  ENSURE(config, !names.contains(type.name), "the {} '{}' is defined twice", type.kind, type.name);
  std::string name = type.name;
  names.emplace(std::move(name), std::move(type));
}

const StageType* Vocabulary::find(std::string_view kind, std::string_view name) const {
  const auto names = kinds_.find(kind);
  if (names == kinds_.end()) return nullptr;
  const auto found = names->second.find(name);
  return found == names->second.end() ? nullptr : &found->second;
}

std::vector<std::string> Vocabulary::kinds() const {
  std::vector<std::string> kinds;
  for (const auto& [kind, names] : kinds_) kinds.push_back(kind);
  return kinds;
}

std::vector<std::string> Vocabulary::names(std::string_view kind) const {
  std::vector<std::string> names;
  if (const auto found = kinds_.find(kind); found != kinds_.end()) {
    for (const auto& [name, type] : found->second) names.push_back(name);
  }
  return names;
}

}  // namespace trainctl::config
