#include "checkpoint/saves.hpp"
#include "study/resume/run_history.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <chrono>
#include <map>
#include <vector>

using namespace trainctl;
using study::ResumePoint;

namespace {

/// Returns every file below the folder and the targets of links, without superseded/.
std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (name.starts_with("superseded")) continue;
    if (entry.is_symlink()) {
      found[name] = fs::read_symlink(entry.path()).string();
    } else if (entry.is_regular_file()) {
      found[name] = read_file(entry.path(), 1 << 20, ReadFailure::resource);
    }
  }
  return found;
}

constexpr const char* kRows = "epoch,step\n1,10\n2,20\n3,30\n";

/// Creates three epochs with a checkpoint each; `last` points to the newest.
void fill(const fs::path& folder) {
  checkpoint::Store store(folder / "checkpoints");
  fs::path newest;
  for (const std::int64_t step : {10, 20, 30}) newest = saves::save(store, step);
  store.point(checkpoint::Link::last, newest);
  put_text(folder / "epochs.csv", kRows);
  put_text(folder / "metrics.jsonl", "{\"step\":5}\n{\"step\":15}\n{\"step\":25}\n");
}

bool has_rollback(const fs::path& folder, const std::string& number = "1") {
  return fs::exists(folder / "superseded" / number / "rollback");
}

}  // namespace

TEST_CASE("superseded files: a failed start is undone completely") {
  TempFolder folder;
  fill(folder.path());
  put_text(folder / "result.json", "{}");
  const auto before = content_of(folder.path());
  REQUIRE(study::supersede_history(folder.path(), ResumePoint{1, 10}));
  checkpoint::Store(folder / "checkpoints")
      .point(checkpoint::Link::last, folder / "checkpoints" / saves::name_of(10));
  CHECK(content_of(folder.path()) != before);
  CHECK(has_rollback(folder.path()));
  CHECK(study::restore_superseded(folder.path()));
  CHECK(content_of(folder.path()) == before);
  CHECK_FALSE(has_rollback(folder.path()));
  CHECK_FALSE(fs::exists(folder / "superseded/1/epochs.csv"));
  CHECK(fs::exists(folder / "superseded/1/result.json"));
  CHECK_FALSE(study::restore_superseded(folder.path()));
}

TEST_CASE("superseded files: rewritten and restored files keep their modification times") {
  TempFolder folder;
  fill(folder.path());
  const fs::file_time_type before = fs::file_time_type::clock::now() - std::chrono::hours(1);
  const std::vector<fs::path> files{folder / "epochs.csv", folder / "metrics.jsonl"};
  for (const fs::path& file : files) fs::last_write_time(file, before);
  const auto check_times = [&] {
    for (const fs::path& file : files)
      CHECK(fs::last_write_time(file) - before < std::chrono::seconds(1));
  };
  REQUIRE(study::supersede_history(folder.path(), ResumePoint{1, 10}));
  check_times();
  REQUIRE(study::restore_superseded(folder.path()));
  check_times();
}

TEST_CASE("superseded files: nothing is restored after the run has resumed") {
  TempFolder folder;
  fill(folder.path());
  study::supersede_history(folder.path(), ResumePoint{1, 10});
  study::commit_superseded(folder.path());
  const auto after = content_of(folder.path());
  CHECK_FALSE(has_rollback(folder.path()));
  CHECK_FALSE(study::restore_superseded(folder.path()));
  CHECK(content_of(folder.path()) == after);
  CHECK(saves::holds(folder / "superseded/1/checkpoints" / saves::name_of(30), 30));
}

TEST_CASE("superseded files: a newer checkpoint shows that the run has resumed") {
  for (const std::int64_t step : {15, 20}) {  // step 20 has a superseded checkpoint
    TempFolder folder;
    fill(folder.path());
    study::supersede_history(folder.path(), ResumePoint{1, 10});
    checkpoint::Store store(folder / "checkpoints");
    saves::save(store, step);
    CHECK_FALSE(study::restore_superseded(folder.path()));
    CHECK(store.list().size() == 2);
    CHECK_FALSE(has_rollback(folder.path()));
  }
}

TEST_CASE("superseded files: a start killed while moving or restoring files can be undone") {
  TempFolder folder;
  fill(folder.path());
  const auto before = content_of(folder.path());
  study::supersede_history(folder.path(), ResumePoint{1, 10});
  const fs::path superseded = folder / "superseded/1";
  const std::string name = saves::name_of(20);
  fs::rename(superseded / "checkpoints" / name, folder / "checkpoints" / name);
  fs::rename(superseded / "rollback/epochs.csv", folder / "epochs.csv");
  CHECK(study::restore_superseded(folder.path()));
  CHECK(content_of(folder.path()) == before);
}

TEST_CASE("superseded files: without superseded files nothing is restored") {
  TempFolder folder;
  CHECK_FALSE(study::restore_superseded(folder.path()));
  put_text(folder / "superseded/notes/rollback/a", "mine");
  put_text(folder / "superseded/2/epochs.csv", kRows);
  CHECK_FALSE(study::restore_superseded(folder.path()));
  CHECK(fs::exists(folder / "superseded/notes/rollback/a"));
}
