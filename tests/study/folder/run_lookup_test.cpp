#include "base/error.hpp"
#include "checkpoint/saves.hpp"
#include "spec/experiment/job.hpp"
#include "study/folder/run_folder.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <vector>

using namespace trainctl;
using study::find_run;

namespace {

void make_run(const fs::path& run) { put_text(run / "config.resolved.yaml", "name: x\n"); }

}  // namespace

TEST_CASE("find_run: finds a run by folder, by experiment or as latest") {
  TempFolder root;
  make_run(root / "digits/20260101-000000-aaaa");
  make_run(root / "digits/20260103-000000-bbbb");
  make_run(root / "other/20260102-000000-cccc");
  put_text(root / "other/20260104-000000-dddd/result.json", "{}");  // it has no config
  const fs::path newest = root / "digits/20260103-000000-bbbb";
  CHECK(find_run("latest", root.path()) == newest);
  CHECK(find_run("digits", root.path()) == newest);
  CHECK(find_run("other", root.path()) == root / "other/20260102-000000-cccc");
  CHECK(find_run(newest.string(), root / "none") == newest);
  CHECK(find_run((root / "other").string(), root / "none") == root / "other/20260102-000000-cccc");
  CHECK_THROWS_WITH(find_run("nothing", root.path()), Contains("cannot find the run 'nothing'"));
  CHECK_FALSE(study::lookup_run("", root.path()));
  CHECK_FALSE(study::lookup_run("digits/nothing", root.path()));
}

TEST_CASE("lookup_run: newer runs that do not satisfy the requirement are skipped") {
  TempFolder root;
  const fs::path older = root / "digits/20260101-000000-aaaa";
  const fs::path newer = root / "digits/20260103-000000-bbbb";
  make_run(older);
  make_run(newer);
  for (const char* word : {"digits", "latest"}) {
    CHECK(study::lookup_run(word, root.path(), study::RunNeeds::weights)->folder == newer);
  }
  put_text(older / "checkpoints/best.safetensors", "");
  for (const char* word : {"digits", "latest"}) {
    const auto found = study::lookup_run(word, root.path(), study::RunNeeds::weights);
    CHECK(found->folder == older);
    CHECK(found->skipped == std::vector<fs::path>{newer});
    CHECK(study::lookup_run(word, root.path())->folder == newer);
  }
  CHECK(study::lookup_run(newer.string(), root.path(), study::RunNeeds::weights)->folder == newer);
}

namespace {

/// Saves a checkpoint of that step; with `weights_only` like checkpoint.save_weights_only.
void save_checkpoint(const fs::path& run, std::int64_t step, bool weights_only = false) {
  checkpoint::Store store(run / "checkpoints");
  fs::path made;
  checkpoint::Manifest manifest = saves::begin(store, step, made);
  if (weights_only) manifest.facts["weights_only"] = "true";
  store.commit(made, manifest);
  store.point(checkpoint::Link::last, made);
}

void point_at_best(const fs::path& run, std::int64_t step) {
  checkpoint::Store(run / "checkpoints")
      .point(checkpoint::Link::best, run / "checkpoints" / saves::name_of(step));
}

}  // namespace

TEST_CASE("newest_run: returns the newest run that satisfies the requirement") {
  using study::RunNeeds;
  TempFolder root;
  const fs::path complete = root / "digits/20260101-000000-aaaa";
  const fs::path weights_only = root / "digits/20260102-000000-aaaa";
  const fs::path only_last = root / "digits/20260103-000000-aaaa";
  const fs::path only_file = root / "digits/20260104-000000-aaaa";
  const fs::path failed = root / "digits/20260105-000000-aaaa";
  for (const fs::path& run : {complete, weights_only, only_last, only_file, failed}) make_run(run);
  save_checkpoint(complete, 10);
  point_at_best(complete, 10);
  put_text(complete / "result.json", R"({"exit_code": 0})");
  save_checkpoint(weights_only, 10, true);
  point_at_best(weights_only, 10);
  save_checkpoint(only_last, 10);
  put_text(only_file / "checkpoints/best.safetensors", "");
  put_text(failed / "result.json", R"({"exit_code": 6})");
  const auto found = [&](RunNeeds needs) {
    return study::newest_run(root.path(), "digits", needs).run;
  };
  CHECK(found(RunNeeds::nothing) == failed);
  CHECK(found(RunNeeds::weights) == only_file);
  CHECK(found(RunNeeds::best_weights) == only_file);
  CHECK(found(RunNeeds::last_weights) == only_last);
  CHECK(found(RunNeeds::checkpoint) == only_last);
  CHECK(found(RunNeeds::resumable) == only_last);
  CHECK(found(RunNeeds::resumable_best) == complete);
  CHECK(found(RunNeeds::success) == complete);
  const auto search = study::newest_run(root.path(), "digits", RunNeeds::resumable_best);
  CHECK(search.skipped == std::vector{failed, only_file, only_last, weights_only});
  fs::remove_all(only_last);
  CHECK(found(RunNeeds::resumable) == complete);
  CHECK(found(RunNeeds::checkpoint) == weights_only);
}

TEST_CASE("lookup_run: a run without its config is recognized by its checkpoints") {
  TempFolder root;
  const fs::path run = root / "digits/20260101-000000-aaaa";
  save_checkpoint(run, 10);
  CHECK(find_run("digits", root.path()) == run);
  CHECK(find_run(run.string(), root.path()) == run);
}

TEST_CASE("is_training: with a damaged task.json a run with checkpoints is training") {
  TempFolder root;
  make_run(root / "r");
  CHECK(study::is_training(root / "r"));
  CHECK(study::job_damage(root / "r").empty());
  put_text(root / "r" / spec::kJobFile, "{");
  CHECK_FALSE(study::job_damage(root / "r").empty());
  CHECK_FALSE(study::is_training(root / "r"));
  save_checkpoint(root / "r", 10);
  CHECK(study::is_training(root / "r"));
  CHECK(study::meets(root / "r", study::RunNeeds::last_weights));
}

TEST_CASE("lookup_run: latest is first in every search, also among all experiments") {
  TempFolder root;
  make_run(root / "digits/20260101-000000-aaaa");
  make_run(root / "digits/20260103-000000-aaaa");
  make_run(root / "other/20260102-000000-aaaa");
  CHECK(find_run("latest", root.path()) == root / "digits/20260103-000000-aaaa");
  fs::create_directory_symlink("20260101-000000-aaaa", root / "digits/latest");
  CHECK(find_run("digits", root.path()) == root / "digits/20260101-000000-aaaa");
  CHECK(find_run("latest", root.path()) == root / "other/20260102-000000-aaaa");
}
