#include "cli/weights_check.hpp"

#include "base/bounded_text.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "spec/checks/checker.hpp"
#include "weights/import.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace trainctl::app {
namespace {

constexpr const char* kPath = "weights.path";

bool is_sha256(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](unsigned char c) {
           return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f');
         });
}

/// A name of the same folder that may have been meant.
std::string hint_for(const fs::path& path) {
  constexpr std::size_t kMostNames = 10'000;
  std::error_code failure;
  std::vector<std::string> names;
  for (fs::directory_iterator at(path.parent_path(), failure), end;
       !failure && at != end && names.size() < kMostNames; at.increment(failure))
    names.push_back(at->path().filename().string());
  if (failure)
    return fmt::format("the folder {} cannot be read", printable(path.parent_path().string()));
  const auto near = nearest(path.filename().string(), names);
  return near ? fmt::format("did you mean '{}'?", printable(*near)) : "correct the path";
}

/// Whether there is a file to look into.
bool check_place(const fs::path& path, spec::Checker& checker) {
  if (is_remote(path)) {
    checker.error(kPath, "weights are read from a local disk", "download the file first");
    return false;
  }
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    checker.error(kPath, fmt::format("the file {} does not exist", printable(path.string())),
                  hint_for(path));
    return false;
  }
  if (fs::is_regular_file(path, failure)) return true;
  checker.error(kPath, fmt::format("{} is no regular file", printable(path.string())),
                "name a file of weights");
  return false;
}

config::Position place_of(const spec::Checker& checker) {
  const config::Node* path = checker.find(kPath);
  return (path != nullptr ? path : checker.find("weights"))->position;
}

}  // namespace

void check_weights(const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
  spec::Checker checker(loaded.experiment, loaded.tree, diagnostics);
  const std::optional<spec::Weights>& weights = loaded.experiment.weights;
  if (loaded.tree.broken || !weights || !checker.sound("weights")) return;
  if (weights->sha256 && !is_sha256(*weights->sha256)) {
    checker.error("weights.sha256", fmt::format("'{}' is no SHA-256", printable(*weights->sha256)),
                  "write 64 digits 0-9a-f, as sha256sum prints them");
  }
  if (!check_place(weights->path, checker)) return;
  try {
    (void)weights::entries_of(
        weights->path, {.section = weights->section,
                        .renaming = {.prefix = weights->prefix, .key_map = weights->key_map}});
  } catch (const Error& error) {
    diagnostics.add({.position = place_of(checker),
                     .message = with_prefix("weights", error.what()),
                     .kind = error.kind()});
  }
}

}  // namespace trainctl::app
