#include "base/error.hpp"
#include "checkpoint/saves.hpp"
#include "spec/experiment/job.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/folder/run_folder.hpp"
#include "study/resume/resume.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

using namespace trainctl;

namespace {

std::string whole_file(const fs::path& file) {
  return read_file(file, 1 << 20, ReadFailure::resource);
}

}  // namespace

TEST_CASE("rename_damaged_files: damaged files are renamed and reported") {
  TempFolder run;
  for (const char* name : {"task.json", "result.json", "manifest.json", "config.resolved.yaml"})
    put_text(run / name, "{\"cut");
  CHECK(study::damaged_files(run.path()).size() == 4);
  CHECK(fs::exists(run / "task.json"));  // only moved when the start writes the file again
  const auto notes = study::rename_damaged_files(run.path());
  REQUIRE(notes.size() == 4);
  for (const char* name : {"task.json", "result.json", "manifest.json", "config.resolved.yaml"}) {
    CHECK_FALSE(fs::exists(run / name));
    CHECK(whole_file(run / ("corrupt-" + std::string(name))) == "{\"cut");
  }
  CHECK_THAT(notes[0], StartsWith((run / "task.json").string() + " is damaged (") &&
                           EndsWith("moved to corrupt-task.json and written again"));
  put_text(run / "task.json", "again");
  CHECK_THAT(study::rename_damaged_files(run.path()).at(0), Contains("corrupt-task.json-2"));
}

TEST_CASE("rename_damaged_files: valid and missing files are unchanged") {
  TempFolder run;
  CHECK(study::rename_damaged_files(run.path()).empty());
  put_text(run / "task.json", spec::dump_job({.until_epoch = 3}));
  put_text(run / "result.json", "{}");
  put_text(run / "config.resolved.yaml", "name: x\n");
  CHECK(study::rename_damaged_files(run.path()).empty());
  CHECK(fs::exists(run / "task.json"));
}

TEST_CASE("resumed_folder: a damaged task.json is accepted if the run has checkpoints") {
  TempFolder root;
  const fs::path run = root / "r";
  put_text(run / "config.resolved.yaml", "name: x\n");
  put_text(run / "task.json", "{");
  const study::FolderRequest asked{.name = "x", .root = root.path(), .fixed = run};
  const auto resume = [&] { return study::resumed_folder(asked, study::parse_resume("auto")); };
  CHECK_THROWS_WITH(resume(), Contains(run.string()) && Contains("task.json is damaged") &&
                                  Contains("remove the folder, or choose another --run-dir"));
  checkpoint::Store store(run / "checkpoints");
  saves::save(store, 10);
  CHECK(resume().fixed == run);
}

TEST_CASE("restore_resolved_config: uses the copy in the newest checkpoint") {
  TempFolder run;
  CHECK_THROWS_WITH(study::restore_resolved_config(run.path()), Contains(run.path().string()) &&
                                                                    Contains("is missing") &&
                                                                    Contains("--run-dir"));
  CHECK(study::restore_if_possible(run.path()).empty());
  CHECK_FALSE(study::resolved_config_of(run.path()));
  checkpoint::Store store(run / "checkpoints");
  fs::path made;
  checkpoint::Manifest manifest = saves::begin(store, 10, made);
  manifest.facts["config"] = "name: kept\n";
  store.commit(made, manifest);
  for (const char* damaged : {"", "name: [x", "- a list\n"}) {
    put_text(run / "config.resolved.yaml", damaged);
    CHECK(study::resolved_config_of(run.path()) == "name: kept\n");
    CHECK_THAT(study::restore_resolved_config(run.path()),
               Contains("corrupt-config.resolved.yaml") && EndsWith("from the newest checkpoint"));
    CHECK(whole_file(run / "config.resolved.yaml") == "name: kept\n");
  }
  CHECK(study::restore_resolved_config(run.path()).empty());
  fs::remove(run / "config.resolved.yaml");
  CHECK_THAT(study::restore_resolved_config(run.path()), Contains("is missing: written again"));
}

TEST_CASE("restore_resolved_config: the error for a folder in use has a hint") {
  TempFolder run;
  put_text(run / "config.resolved.yaml", "name: [x");
  study::LockHolder holder = study::this_process();
  holder.pid = ::getppid();
  holder.started = 0;
  put_text(run / study::FolderLock::kFileName, study::lock_line(holder));
  CHECK_THROWS_WITH(study::restore_resolved_config(run.path()),
                    Contains(run.path().string()) && Contains("config.resolved.yaml is damaged") &&
                        Contains("another process uses the folder") && Contains("--run-dir"));
  CHECK(whole_file(run / "config.resolved.yaml") == "name: [x");
}

TEST_CASE("damaged_history: reports damaged lines, but not a truncated last line") {
  TempFolder run;
  put_text(run / "metrics.jsonl",
           "{\"type\":\"step\",\"epoch\":1,\"step\":5}\nrubbish\n"
           "{\"type\":\"step\",\"epoch\":1,\"step\":10}\n{\"type\":\"st");
  put_text(run / "epochs.csv", "epoch,step,lr\n1,5,0.1\n2,10\n3,15,0.");
  const auto notes = study::damaged_history(run.path());
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == "metrics.jsonl: line 2 is not a metrics line and is skipped");
  CHECK_THAT(notes[1], StartsWith("epochs.csv: line 3 has 2 cells"));
}
