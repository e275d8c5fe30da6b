#include "study/resume/resume.hpp"

#include "base/error.hpp"
#include "checkpoint/saves.hpp"
#include "spec/experiment/job.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

#include <fstream>

using namespace trainctl;
using study::ResumeFrom;

namespace {

/// Creates a run folder with checkpoints of these steps.
fs::path make_run(const fs::path& run_dir, const std::vector<std::int64_t>& steps) {
  put_text(run_dir / "config.resolved.yaml", "loader:\n  batch_size: 48\n");
  checkpoint::Store store(run_dir / "checkpoints");
  for (const std::int64_t step : steps) saves::save(store, step);
  return run_dir;
}

void flip_a_byte(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(3000);
  const int byte = stream.get();
  stream.seekp(3000);
  stream.put(static_cast<char>(byte ^ 1));
}

template <class Body>
std::string error_of(ErrorKind kind, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "accepted";
}

std::int64_t step_of(const study::ResumeOrigin& origin) { return origin.manifest.global_step; }

}  // namespace

TEST_CASE("parse_resume: accepts auto, last, best and paths") {
  CHECK(study::parse_resume("auto").from == ResumeFrom::automatic);
  CHECK(study::parse_resume("last").from == ResumeFrom::last);
  CHECK(study::parse_resume("best").from == ResumeFrom::best);
  const auto path = study::parse_resume("./last");
  CHECK(path.from == ResumeFrom::path);
  CHECK(path.path == fs::current_path() / "last");
}

TEST_CASE("choose_checkpoint: auto and last use the newest checkpoint, best its link") {
  TempFolder folder;
  const fs::path run = make_run(folder / "r", {10, 20, 30});
  checkpoint::Store store(run / "checkpoints");
  store.point(checkpoint::Link::best, run / "checkpoints" / saves::name_of(20));
  CHECK(step_of(study::choose_checkpoint(run, study::parse_resume("auto"))) == 30);
  CHECK(step_of(study::choose_checkpoint(run, study::parse_resume("last"))) == 30);
  const auto best = study::choose_checkpoint(run, study::parse_resume("best"));
  CHECK(step_of(best) == 20);
  CHECK(best.checkpoint == fs::canonical(run) / "checkpoints" / saves::name_of(20));
}

TEST_CASE("choose_checkpoint: a damaged checkpoint is renamed and the previous one is used") {
  TempFolder folder;
  const fs::path run = make_run(folder / "r", {10, 20, 30});
  flip_a_byte(run / "checkpoints" / saves::name_of(30) / "rank_1.part");
  const auto origin = study::choose_checkpoint(run, study::parse_resume("auto"));
  CHECK(step_of(origin) == 20);
  REQUIRE(origin.damaged.size() == 1);
  CHECK_THAT(origin.damaged[0], StartsWith("a checkpoint is damaged: ") &&
                                    Contains("rank_1.part") &&
                                    Contains("corrupt-" + saves::name_of(30)) &&
                                    EndsWith("; using " + saves::name_of(20)));
  CHECK(fs::exists(run / "checkpoints" / ("corrupt-" + saves::name_of(30))));
}

TEST_CASE("choose_checkpoint: a run with only damaged checkpoints is not restarted from scratch") {
  TempFolder folder;
  const fs::path run = make_run(folder / "r", {10});
  flip_a_byte(run / "checkpoints" / saves::name_of(10) / "rank_0.part");
  for (int i = 0; i < 2; ++i) {
    CHECK_THAT(error_of(ErrorKind::checkpoint,
                        [&] { study::choose_checkpoint(run, study::parse_resume("auto")); }),
               Contains("valid") && Contains("damaged"));
  }
}

TEST_CASE("choose_checkpoint: a damaged best checkpoint is not replaced by another") {
  TempFolder folder;
  const fs::path run = make_run(folder / "r", {10, 20});
  checkpoint::Store(run / "checkpoints")
      .point(checkpoint::Link::best, run / "checkpoints" / saves::name_of(10));
  flip_a_byte(run / "checkpoints" / saves::name_of(10) / "rank_0.part");
  CHECK_THAT(error_of(ErrorKind::checkpoint,
                      [&] { study::choose_checkpoint(run, study::parse_resume("best")); }),
             Contains("rank_0.part"));
}

TEST_CASE("choose_checkpoint: without a checkpoint auto starts from scratch, last and best fail") {
  TempFolder folder;
  const fs::path run = make_run(folder / "r", {});
  CHECK(study::choose_checkpoint(run, study::parse_resume("auto")).checkpoint.empty());
  for (const char* word : {"last", "best"}) {
    CHECK_THAT(error_of(ErrorKind::checkpoint,
                        [&] { study::choose_checkpoint(run, study::parse_resume(word)); }),
               Contains("no checkpoint"));
  }
}

TEST_CASE("choose_checkpoint: a checkpoint with only weights is an error") {
  TempFolder folder;
  const fs::path run = make_run(folder / "r", {});
  checkpoint::Store store(run / "checkpoints");
  fs::path made;
  checkpoint::Manifest manifest = saves::begin(store, 10, made);
  manifest.facts["weights_only"] = "true";
  store.commit(made, manifest);
  CHECK_THAT(error_of(ErrorKind::checkpoint,
                      [&] { study::choose_checkpoint(run, study::parse_resume("auto")); }),
             Contains("weights only"));
}

TEST_CASE("resumed_folder: uses --run-dir, the path or the newest run of the name") {
  TempFolder root;
  const study::FolderRequest requested{.name = "x", .root = root.path(), .fixed = {}};
  CHECK(study::resumed_folder(requested, study::parse_resume("auto")).if_used ==
        study::IfUsed::refuse);
  CHECK_THAT(error_of(ErrorKind::checkpoint,
                      [&] { study::resumed_folder(requested, study::parse_resume("last")); }),
             Contains("no run of 'x'") && Contains("has a checkpoint"));

  make_run(root / "x/20260101-000000-aaaa", {10});
  const fs::path newer = make_run(root / "x/20260102-000000-aaaa", {10});
  const auto newest = study::resumed_folder(requested, study::parse_resume("auto"));
  CHECK(newest.fixed == newer);
  CHECK(newest.if_used == study::IfUsed::resume);

  fs::create_directory_symlink("20260101-000000-aaaa", root / "x/latest");
  CHECK(study::resumed_folder(requested, study::parse_resume("auto")).fixed ==
        fs::canonical(root / "x/20260101-000000-aaaa"));

  for (const fs::path& path : {newer, newer / "checkpoints" / saves::name_of(10)}) {
    const study::ResumeRequest request = study::parse_resume(path.string());
    CHECK(study::resumed_folder(requested, request).fixed == fs::canonical(newer));
    CHECK(study::run_folder_of(request) == fs::canonical(newer));
  }
}

TEST_CASE("resumed_folder: a search by name skips runs without a checkpoint") {
  TempFolder root;
  const study::FolderRequest requested{.name = "x", .root = root.path()};
  const fs::path oldest = make_run(root / "x/20260101-000000-aaaa", {10});
  const fs::path trained = make_run(root / "x/20260102-000000-aaaa", {20});
  checkpoint::Store(trained / "checkpoints")
      .point(checkpoint::Link::best, trained / "checkpoints" / saves::name_of(20));
  const fs::path failed = make_run(root / "x/20260103-000000-aaaa", {});
  const fs::path unfinished = make_run(root / "x/20260104-000000-aaaa", {});
  fs::create_directories(unfinished / "checkpoints" / saves::name_of(30));  // it has no manifest
  fs::create_directory_symlink("20260104-000000-aaaa", root / "x/latest");
  for (const char* word : {"auto", "last", "best"}) {
    const auto found = study::resumed_folder(requested, study::parse_resume(word));
    CHECK(found.fixed == trained);
    CHECK(found.skipped == std::vector{unfinished, failed});
    const std::string lacking = std::string(word) == "best" ? "'best'" : "to resume from";
    const study::ResumeOrigin origin =
        study::choose_checkpoint(trained, study::parse_resume("auto"));
    CHECK_THAT(study::resume_notice(found, trained, origin),
               StartsWith("resuming " + trained.string() + " from checkpoint ") &&
                   Contains(saves::name_of(20)) &&
                   EndsWith("skipped 2 newer runs without a checkpoint " + lacking + ": " +
                            unfinished.string()));
  }
}

TEST_CASE("resumed_folder: a run is resumed in its folder when the link moves meanwhile") {
  TempFolder root;
  const fs::path first = make_run(root / "x/20260101-000000-aaaa", {10});
  fs::create_directory_symlink(first.filename(), root / "x/latest");
  const study::FolderRequest requested{
      .name = "x", .root = root.path(), .fixed = root / "x/latest"};
  const auto found = study::resumed_folder(requested, study::parse_resume("auto"));
  const study::RunFolder second = study::make_run_folder({.name = "x", .root = root.path()});
  CHECK(found.fixed == fs::canonical(first));
  CHECK(study::make_run_folder(found).path == fs::canonical(first));
  CHECK(fs::canonical(root / "x/latest") == fs::canonical(second.path));
}

TEST_CASE("resumed_folder: a run without config.resolved.yaml is not skipped") {
  TempFolder root;
  const study::FolderRequest requested{.name = "x", .root = root.path()};
  const fs::path run = make_run(root / "x/20260101-000000-aaaa", {10});
  fs::remove(run / "config.resolved.yaml");
  CHECK(study::resumed_folder(requested, study::parse_resume("auto")).fixed == run);
  CHECK_FALSE(study::resumed_batch(requested, study::parse_resume("auto")));
}

TEST_CASE("resumed_folder: auto starts a new run if no run has a checkpoint") {
  TempFolder root;
  const study::FolderRequest requested{.name = "x", .root = root.path()};
  make_run(root / "x/20260103-000000-aaaa", {});
  const auto found = study::resumed_folder(requested, study::parse_resume("auto"));
  CHECK_FALSE(found.fixed);
  CHECK(found.if_used == study::IfUsed::refuse);
  CHECK(study::resume_notice(found, root / "x/new", {}) ==
        "no run of 'x' in " + root.path().string() +
            " has a checkpoint to resume from: training starts from scratch in " +
            (root / "x/new").string());
  CHECK_THAT(error_of(ErrorKind::checkpoint,
                      [&] { study::resumed_folder(requested, study::parse_resume("last")); }),
             Contains("has a checkpoint"));
}

TEST_CASE("resumed_folder: auto skips neither running runs nor those with damaged checkpoints") {
  TempFolder root;
  const study::FolderRequest requested{.name = "x", .root = root.path()};
  make_run(root / "x/20260101-000000-aaaa", {10});
  const fs::path newer = make_run(root / "x/20260102-000000-aaaa", {});
  study::LockHolder other = study::this_process();
  other.pid = ::getppid();
  other.started = 0;
  put_text(newer / study::FolderLock::kFileName, study::lock_line(other));
  const auto folder = [&] {
    return study::resumed_folder(requested, study::parse_resume("auto")).fixed;
  };
  CHECK(folder() == newer);
  fs::remove(newer / study::FolderLock::kFileName);
  CHECK(folder() == root / "x/20260101-000000-aaaa");
  fs::create_directories(newer / "checkpoints" / ("corrupt-" + saves::name_of(20)));
  CHECK(folder() == newer);
}

TEST_CASE("resumed_folder: a checkpoint of another folder starts a new run in --run-dir") {
  TempFolder root;
  const fs::path run = make_run(root / "r", {10});
  study::FolderRequest requested{.name = "x", .root = root.path(), .fixed = root / "new"};
  const std::string checkpoint = (run / "checkpoints" / saves::name_of(10)).string();
  const auto fork = study::resumed_folder(requested, study::parse_resume(checkpoint));
  CHECK(fork.fixed == root / "new");
  CHECK(fork.if_used == study::IfUsed::refuse);
  CHECK_THAT(error_of(ErrorKind::config,
                      [&] { study::resumed_folder(requested, study::parse_resume(run.string())); }),
             Contains("different folders"));
  fs::rename(checkpoint, root / saves::name_of(10));
  requested.fixed.reset();
  const std::string alone = (root / saves::name_of(10)).string();
  CHECK_THAT(error_of(ErrorKind::checkpoint,
                      [&] { study::resumed_folder(requested, study::parse_resume(alone)); }),
             Contains("not in a run folder") && Contains("--run-dir"));
}

TEST_CASE("resumed_folder: rejects folders that are not training runs") {
  TempFolder root;
  study::FolderRequest requested{.name = "x", .root = root.path(), .fixed = root / "mine"};
  put_text(root / "mine/thesis.tex", "x");
  CHECK_THAT(error_of(ErrorKind::config,
                      [&] { study::resumed_folder(requested, study::parse_resume("auto")); }),
             Contains("not a run folder"));
  requested.fixed = make_run(root / "evaluated", {});
  put_text(*requested.fixed / spec::kJobFile,
           spec::dump_job({spec::JobKind::evaluate, "val", "best.safetensors"}));
  CHECK_THAT(error_of(ErrorKind::config,
                      [&] { study::resumed_folder(requested, study::parse_resume("auto")); }),
             Contains("evaluation"));
  put_text(root / "best.safetensors", "x");
  CHECK_THAT(error_of(ErrorKind::checkpoint,
                      [&] {
                        study::resumed_folder(
                            requested, study::parse_resume((root / "best.safetensors").string()));
                      }),
             Contains("is a file") && Contains("weights="));
  CHECK_THAT(error_of(ErrorKind::checkpoint,
                      [&] { study::resumed_folder(requested, study::parse_resume("nowhere")); }),
             Contains("does not exist"));
}

TEST_CASE("resumed_folder: a run that was killed at its start restarts in its folder") {
  TempFolder root;
  const study::FolderRequest requested{.name = "x", .root = root.path(), .fixed = root / "killed"};
  const auto resume = [&] {
    return study::resumed_folder(requested, study::parse_resume("auto")).if_used;
  };
  put_text(root / "killed/.lock", "{}");
  CHECK(resume() == study::IfUsed::resume);
  put_text(root / "killed/.result.json.tmp.17", "{");
  put_text(root / "killed/result.json", R"({"verdict": "unfinished", "exit_code": null})");
  put_text(root / "killed/.result.json.reserved.17", "");
  fs::create_directory(root / "killed/logs");
  CHECK(resume() == study::IfUsed::resume);
  CHECK(study::choose_checkpoint(root / "killed", study::parse_resume("auto")).checkpoint.empty());
  put_text(root / "killed/result.json", R"({"verdict": "ok", "exit_code": 0})");
  CHECK_THAT(error_of(ErrorKind::config, resume), Contains("not a run folder"));
}

TEST_CASE("resumed_batch: a resumed run keeps its measured batch size") {
  TempFolder root;
  const study::FolderRequest requested{.name = "x", .root = root.path(), .fixed = {}};
  CHECK_FALSE(study::resumed_batch(requested, study::parse_resume("auto")));
  make_run(root / "x/20260101-000000-aaaa", {10});
  CHECK(study::resumed_batch(requested, study::parse_resume("auto")) == 48);
}
