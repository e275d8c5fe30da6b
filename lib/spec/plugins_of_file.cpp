#include "spec/plugins_of_file.hpp"

#include "base/error.hpp"
#include "config/schema/reader.hpp"
#include "config/tree/load.hpp"
#include "spec/load.hpp"
#include "spec/plugins.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

namespace trainctl::spec {
namespace {

constexpr std::string_view kKey = "plugins";

struct Wish {
  std::filesystem::path library;
  config::Position position;
};

/// `plugins=[libmine.so]`, `++plugins=...`, `plugins.0=...`, `~plugins`.
bool is_of_plugins(std::string_view change) {
  change.remove_prefix(std::min(change.find_first_not_of("+~"), change.size()));
  if (!change.starts_with(kKey)) return false;
  change.remove_prefix(kKey.size());
  return change.empty() || change.front() == '=' || change.front() == '.';
}

/// What is wrong with the key itself, the reader of the whole experiment tells.
std::vector<Wish> wishes_of(const config::Node& files, const std::vector<std::string>& overrides) {
  std::vector<std::string> own;
  std::ranges::copy_if(overrides, std::back_inserter(own), is_of_plugins);
  if (files.broken || (files.find(kKey) == nullptr && own.empty())) return {};
  config::Diagnostics ignored;
  const config::Grammar grammar{&experiment_schema(), &builtin_vocabulary()};
  const config::Node tree = config::finish_tree(files, own, ignored, grammar);
  const config::Node* list = tree.find(kKey);
  if (list == nullptr || list->type != config::Node::Type::list) return {};
  config::Reader reader(builtin_vocabulary(), ignored);
  config::Field field;
  field.key = kKey;
  std::vector<Wish> wishes;
  for (const config::Node& one : list->items) {
    Wish wish{{}, one.position};
    if (reader.path(one, field, wish.library)) wishes.push_back(std::move(wish));
  }
  return wishes;
}

}  // namespace

void use_plugins_of(const config::Node& files, const std::vector<std::string>& overrides,
                    config::Diagnostics& diagnostics) {
  PluginSet set;
  for (const Wish& wish : wishes_of(files, overrides)) {
    try {
      set.add(open_plugin(wish.library));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::config) throw;
      diagnostics.error(wish.position, error.what());
    }
  }
  use_plugins(std::move(set));
}

void resolve_plugins(Experiment& experiment) {
  for (std::filesystem::path& library : experiment.plugins)
    library = find_plugin(library).value_or(library);
}

}  // namespace trainctl::spec
