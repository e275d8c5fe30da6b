#include "study/sweep/definition.hpp"

#include "base/hash.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "study/resume/config_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace trainctl::study {
namespace {

constexpr const char* kSeed = "seed";

bool is_at_or_below(const std::string& path, const std::string& key) {
  return path == key || path.starts_with(key + ".");
}

void flatten(const Json& value, const std::string& path,
             std::map<std::string, std::string>& texts) {
  if (!value.is_object() || (value.empty() && !path.empty())) {
    texts[path] = value.is_string() ? value.get<std::string>() : to_line(value);
    return;
  }
  for (const auto& [key, below] : value.items())
    flatten(below, path.empty() ? key : path + "." + key, texts);
}

std::string value_at(const std::map<std::string, std::string>& texts, const std::string& path) {
  const auto found = texts.find(path);
  return found == texts.end() ? "nothing" : found->second;
}

}  // namespace

std::string config_hash(const spec::Loaded& loaded) {
  config::Node tree = spec::resolved_tree(loaded);
  std::erase_if(tree.entries, [](const config::Entry& entry) { return entry.key == kSeed; });
  Hasher hasher;
  hasher.add(config::flow_text(tree));
  return hasher.hex();
}

std::string bare_key(const std::string& key) {
  return key.substr(std::min(key.find_first_not_of("+~"), key.size()));
}

Json fixed_values(const spec::Loaded& loaded, const std::vector<std::string>& varied) {
  Json values = Json::object();
  for (const auto& [path, value] : resolved_values(spec::dump_resolved(loaded))) {
    const bool varies = std::ranges::any_of(
        varied, [&](const std::string& key) { return is_at_or_below(path, bare_key(key)); });
    if (!varies && path != kSeed) values[path] = value;
  }
  return values;
}

std::string definition_difference(const Json& before, const Json& now) {
  constexpr std::size_t kMostShown = 6;
  std::map<std::string, std::string> was;
  std::map<std::string, std::string> is;
  flatten(before, "", was);
  flatten(now, "", is);
  std::map<std::string, std::string> all = was;
  all.insert(is.begin(), is.end());
  std::string text;
  std::size_t differences = 0;
  for (const auto& [path, ignored] : all) {
    const std::string old_value = value_at(was, path);
    const std::string new_value = value_at(is, path);
    if (old_value == new_value || ++differences > kMostShown) continue;
    text += fmt::format("{}{}: {} -> {}", text.empty() ? "" : "; ", printable(path),
                        printable(old_value), printable(new_value));
  }
  if (differences > kMostShown) text += fmt::format(" and {} more", differences - kMostShown);
  return text;
}

}  // namespace trainctl::study
