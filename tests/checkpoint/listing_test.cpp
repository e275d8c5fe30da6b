#include "checkpoint/listing.hpp"

#include "checkpoint/folder.hpp"
#include "saves.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;
using namespace trainctl::checkpoint;

namespace {

/// Saves three checkpoints, of which the first is quarantined and the second has a changed tensor
/// byte, and begins a fourth that is never committed.
void fill(const fs::path& folder) {
  Store store(folder);
  const fs::path first = saves::save(store, 1);
  const fs::path second = saves::save(store, 2);
  const fs::path third = saves::save(store, 3);
  store.point(Link::last, third);
  store.point(Link::best, second);
  quarantine(first);
  const fs::path part = Store::part(second, 1);
  std::string bytes = read_file(part, 1 << 20, ReadFailure::resource);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  put_text(part, bytes);
  store.begin(saves::moment_of(4));
}

}  // namespace

TEST_CASE("survey: checkpoints are listed newest first, then the quarantined ones") {
  const TempFolder folder;
  fill(folder.path());
  const std::vector<CheckpointInfo> rows = survey(folder.path(), Depth::manifests);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].state == State::unfinished);
  CHECK(rows[0].moment->global_step == 4);
  CHECK(rows[1].state == State::committed);
  CHECK(rows[1].is_last);
  CHECK_FALSE(rows[1].is_best);
  CHECK(rows[1].bytes > saves::kRanks * saves::kBytes);
  CHECK(rows[1].manifest->monitor == "val/loss");
  CHECK(rows[2].state == State::committed);  // its manifest is valid
  CHECK(rows[2].is_best);
  CHECK(rows[3].state == State::quarantined);
  CHECK(rows[3].moment->global_step == 1);
}

TEST_CASE("survey: a checkpoint of another format is unsupported and not damaged") {
  const TempFolder folder;
  Store store(folder.path());
  const fs::path saved = saves::save(store, 1);
  Json meta = container::File(saved / kManifestName).meta();
  meta["format"] = 1;
  container::write(saved / kManifestName, {}, meta);
  for (const Depth depth : {Depth::manifests, Depth::everything}) {
    const std::vector<CheckpointInfo> rows = survey(folder.path(), depth);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].state == State::unsupported);
    CHECK_THAT(rows[0].why, Contains("cannot read checkpoints of format 1"));
  }
}

TEST_CASE("survey: reading everything names the damaged part and changes nothing") {
  const TempFolder folder;
  fill(folder.path());
  for (int i = 0; i < 2; ++i) {
    const std::vector<CheckpointInfo> rows = survey(folder.path(), Depth::everything);
    REQUIRE(rows.size() == 4);
    CHECK(rows[1].state == State::whole);
    CHECK(rows[2].state == State::damaged);
    CHECK_THAT(rows[2].why, Contains("rank_1.part") && Contains("model/fc.weight"));
  }
}

TEST_CASE("survey: a quarantined checkpoint with a numbered name has its step") {
  const TempFolder folder;
  fs::create_directory(folder / "corrupt-epoch=0001-step=000012-2");
  fs::create_directory(folder / "corrupt-thing");
  const std::vector<CheckpointInfo> rows = survey(folder.path(), Depth::manifests);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].moment->global_step == 12);
  CHECK_FALSE(rows[1].moment);
}

TEST_CASE("survey: a missing folder has no checkpoints") {
  const TempFolder folder;
  CHECK(survey(folder / "nothing", Depth::everything).empty());
}
