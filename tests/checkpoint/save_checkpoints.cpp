// Saves checkpoints and prints their state. tests/smoke/checkpoint_test.py injects failing system
// calls into this program.
// usage: save_checkpoints FOLDER (save:STEP | look)...

#include "base/error.hpp"
#include "base/json.hpp"
#include "saves.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string_view>

namespace {

using namespace trainctl;

/// Prints with one system call. If this call is the one that fails, the failure is ignored.
void say(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t ignored = ::write(STDOUT_FILENO, text.data(), text.size());
  static_cast<void>(ignored);
}

void save(const fs::path& folder, std::int64_t step) {
  ::getppid();  // marks the start of the save in a trace
  checkpoint::Store store(folder);
  const fs::path checkpoint = saves::save(store, step);
  say("committed");
  store.point(checkpoint::Link::last, checkpoint);
  store.point(checkpoint::Link::best, checkpoint);
  store.prune({});
}

Json step_of(const std::optional<fs::path>& checkpoint) {
  if (!checkpoint) return nullptr;
  return checkpoint::parse_folder_name(checkpoint->filename().string())->global_step;
}

/// Prints which checkpoints are intact and hold the saved bytes, the targets of the links, and the
/// checkpoint from which a run would resume.
void look(const fs::path& folder) {
  checkpoint::Store store(folder);
  Json whole = Json::array();
  Json damaged = Json::array();
  for (const checkpoint::StoredCheckpoint& found : store.list()) {
    if (!found.committed) continue;
    try {
      checkpoint::Store::verify(found.path);
      const bool same = saves::holds(found.path, found.moment.global_step);
      (same ? whole : damaged).push_back(found.moment.global_step);
    } catch (const Error&) {
      damaged.push_back(found.moment.global_step);
    }
  }
  Json reported = Json::array();
  const auto newest = store.newest_valid([&](const fs::path& moved, const std::string& why) {
    reported.push_back(moved.string() + why);
  });
  const Json last = step_of(store.pointed(checkpoint::Link::last));
  const Json best = step_of(store.pointed(checkpoint::Link::best));
  say(to_line({{"newest", step_of(newest)},
               {"whole", whole},
               {"damaged", damaged},
               {"reported", reported},
               {"last", last},
               {"best", best}}));
}

void perform(const fs::path& folder, std::string_view word) {
  constexpr std::string_view kSave = "save:";
  std::int64_t step = 0;
  if (word == "look") return look(folder);
  const bool is_save = word.starts_with(kSave);
  if (is_save) word.remove_prefix(kSave.size());
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), step);
  ENSURE(config, is_save && failure == std::errc() && end == word.data() + word.size(),
         "usage: save_checkpoints FOLDER (save:STEP | look)...");
  save(folder, step);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    for (int i = 2; i < argc; ++i) perform(argv[1], argv[i]);
    return 0;
  } catch (const trainctl::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
