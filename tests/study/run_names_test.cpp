#include "study/run_names.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <vector>

using namespace trainctl;
using study::find_run;

namespace {

void make_run(const fs::path& run) { put_text(run / "config.resolved.yaml", "name: x\n"); }

}  // namespace

TEST_CASE("a run is found by its folder, by its experiment, or as the latest") {
  TempFolder root;
  make_run(root / "digits/20260101-000000-aaaa");
  make_run(root / "digits/20260103-000000-bbbb");
  make_run(root / "other/20260102-000000-cccc");
  put_text(root / "other/20260104-000000-dddd/result.json", "{}");  // wrote no config
  const fs::path newest = root / "digits/20260103-000000-bbbb";
  CHECK(find_run("latest", root.path()) == newest);
  CHECK(find_run("digits", root.path()) == newest);
  CHECK(find_run("other", root.path()) == root / "other/20260102-000000-cccc");
  CHECK(find_run(newest.string(), root / "none") == newest);
  CHECK(find_run((root / "other").string(), root / "none") == root / "other/20260102-000000-cccc");
  CHECK_THROWS_WITH(find_run("nothing", root.path()), Contains("there is no run 'nothing'"));
  CHECK_FALSE(study::run_called("", root.path()));
  CHECK_FALSE(study::run_called("digits/nothing", root.path()));
}

TEST_CASE("run_called: newer runs without what a verb needs are skipped and named") {
  TempFolder root;
  const fs::path older = root / "digits/20260101-000000-aaaa";
  const fs::path newer = root / "digits/20260103-000000-bbbb";
  make_run(older);
  make_run(newer);
  for (const char* word : {"digits", "latest"}) {
    CHECK(study::run_called(word, root.path(), study::RunNeeds::weights)->folder == newer);
  }
  put_text(older / "checkpoints/best.safetensors", "");
  for (const char* word : {"digits", "latest"}) {
    const auto found = study::run_called(word, root.path(), study::RunNeeds::weights);
    CHECK(found->folder == older);
    CHECK(found->skipped == std::vector<fs::path>{newer});
    CHECK(study::run_called(word, root.path())->folder == newer);
  }
  CHECK(study::run_called(newer.string(), root.path(), study::RunNeeds::weights)->folder == newer);
}
