#include "checkpoint/store.hpp"

#include "saves.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>

using namespace trainctl;
using namespace trainctl::checkpoint;

namespace {

std::vector<std::int64_t> steps(const Store& store) {
  std::vector<std::int64_t> out;
  for (const StoredCheckpoint& found : store.list()) out.push_back(found.moment.global_step);
  return out;
}

using Steps = std::vector<std::int64_t>;

/// Returns the sorted entries of a folder.
std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder))
    out.push_back(entry.path().filename().string());
  std::ranges::sort(out);
  return out;
}

ErrorKind kind_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind();
  }
  FAIL("nothing was thrown");
  return ErrorKind::unexpected;
}

/// Drops root's permission to write everywhere by switching to another user.
class UnprivilegedUser {
 public:
  UnprivilegedUser() : was_(::geteuid()) {
    if (was_ == 0 && ::seteuid(65534) != 0) skip("seteuid is not permitted");
  }
  ~UnprivilegedUser() {
    if (::seteuid(was_) != 0) std::abort();
  }
  UnprivilegedUser(const UnprivilegedUser&) = delete;
  UnprivilegedUser& operator=(const UnprivilegedUser&) = delete;

 private:
  uid_t was_;
};

}  // namespace

TEST_CASE("Store: a committed checkpoint contains its parts and a manifest, and nothing else") {
  const TempFolder folder;
  Store store(folder / "checkpoints");
  const fs::path checkpoint = saves::save(store, 38);
  CHECK(checkpoint == folder / "checkpoints/epoch=0004-mid-step=000038");
  CHECK(names(checkpoint) == std::vector<std::string>{"manifest", "rank_0.part", "rank_1.part"});
  CHECK(saves::holds(checkpoint, 38));
  CHECK_NOTHROW(Store::verify(checkpoint));
  CHECK(store.newest_valid({}) == checkpoint);
}

TEST_CASE("Store: checkpoints are listed newest first, by step and not by name or file age") {
  const TempFolder folder;
  Store store(folder.path());
  for (const std::int64_t step : {5, 12'345'678, 20}) saves::save(store, step);
  put_text(folder / "best.safetensors", "x");
  put_text(folder / "epoch=0009-step=000099", "a file");
  fs::create_directory_symlink("epoch=0001-mid-step=000005", folder / "epoch=0009-step=000098");
  CHECK(steps(store) == Steps{12'345'678, 20, 5});
  const StoredCheckpoint newest = store.list().front();
  CHECK(newest.committed);
  REQUIRE(newest.manifest.has_value());
  CHECK(newest.manifest->global_step == 12'345'678);
  CHECK(newest.name == newest.path.filename().string());
}

TEST_CASE("Store: an empty folder has no checkpoint to resume from") {
  const TempFolder folder;
  Store store(folder / "none");
  CHECK(store.list().empty());
  CHECK_FALSE(store.newest_valid({}).has_value());
  CHECK_FALSE(store.pointed(Link::last).has_value());
  CHECK_NOTHROW(store.prune({}));
  CHECK_FALSE(fs::exists(folder / "none"));
}

TEST_CASE("Store: an unfinished checkpoint is listed as such, never resumed from, and pruned") {
  const TempFolder folder;
  fs::path left;
  {
    Store killed(folder.path());
    saves::save(killed, 1);
    saves::begin(killed, 2, left);
    killed.prune({});
    CHECK(fs::exists(left));  // it is still being written
  }
  put_text(folder / ".last.tmp.12", "");
  Store store(folder.path());
  REQUIRE(steps(store) == Steps{2, 1});
  CHECK_FALSE(store.list().front().committed);
  CHECK_THAT(store.list().front().why, Contains("not finished"));
  CHECK(store.newest_valid({}) == folder / saves::name_of(1));
  store.prune({});
  CHECK(names(folder.path()) == std::vector<std::string>{saves::name_of(1)});
}

TEST_CASE("Store: a folder that a killed process left is recreated empty") {
  const TempFolder folder;
  fs::path left;
  {
    Store killed(folder.path());
    saves::begin(killed, 7, left);
    put_text(left / ".rank_1.part.tmp.99", "half");
    put_text(left / "rank_5.part", "of a larger world");
    put_text(folder / ".best.tmp.99", "");
  }
  Store store(folder.path());
  CHECK(store.begin(saves::moment_of(7)) == left);
  CHECK(fs::is_empty(left));
  CHECK(names(folder.path()) == std::vector<std::string>{saves::name_of(7)});
  CHECK(saves::holds(saves::save(store, 7), 7));
}

TEST_CASE("Store: leftovers of an earlier save are removed before the next save") {
  const TempFolder folder;
  Store store(folder.path());
  fs::path failed;
  saves::begin(store, 1, failed);
  store.begin(saves::moment_of(2));
  CHECK(names(folder.path()) == std::vector<std::string>{saves::name_of(2)});
}

TEST_CASE("Store: abandon removes an unfinished checkpoint, but not a committed one") {
  const TempFolder folder;
  Store store(folder.path());
  fs::path checkpoint;
  saves::begin(store, 1, checkpoint);
  store.abandon(checkpoint);
  CHECK_FALSE(fs::exists(checkpoint));
  checkpoint = saves::save(store, 2);
  store.abandon(checkpoint);
  CHECK(saves::holds(checkpoint, 2));
}

TEST_CASE("Store: a valid checkpoint is not overwritten") {
  const TempFolder folder;
  Store store(folder.path());
  const fs::path checkpoint = saves::save(store, 7);
  CHECK(kind_of([&] { store.begin(saves::moment_of(7)); }) == ErrorKind::checkpoint);
  CHECK(saves::holds(checkpoint, 7));
}

TEST_CASE("Store: a commit requires the parts that the manifest lists") {
  const TempFolder folder;
  Store store(folder.path());
  fs::path checkpoint;
  Manifest manifest = saves::begin(store, 7, checkpoint);
  SECTION("a part is missing") { fs::remove(Store::part(checkpoint, 1)); }
  SECTION("a part has another checksum") { manifest.parts[1].checksum ^= 1; }
  SECTION("a part has another size") { manifest.parts[0].bytes += 1; }
  SECTION("a part is not listed") { manifest.parts.pop_back(); }
  SECTION("a part is from another step") { saves::write_part(checkpoint, 8, 0); }
  CHECK(kind_of([&] { store.commit(checkpoint, manifest); }) == ErrorKind::checkpoint);
  CHECK_FALSE(fs::exists(checkpoint / "manifest"));
  CHECK_FALSE(store.newest_valid({}).has_value());
}

TEST_CASE("Store: a link points to the checkpoint of its last update") {
  const TempFolder folder;
  Store store(folder.path());
  const fs::path first = saves::save(store, 1);
  const fs::path second = saves::save(store, 2);
  store.point(Link::best, first);
  store.point(Link::last, first);
  store.point(Link::last, second);
  CHECK(store.pointed(Link::last) == second);
  CHECK(store.pointed(Link::best) == first);
  CHECK(fs::read_symlink(folder / "last") == saves::name_of(2));
  CHECK_NOTHROW(Store::verify(folder / "best"));
  CHECK(names(folder.path()).size() == 4);
}

TEST_CASE(
    "Store: a link outside the folder, to nothing or to an unfinished checkpoint is ignored") {
  const TempFolder folder;
  Store store(folder / "checkpoints");
  const fs::path checkpoint = saves::save(store, 1);
  fs::path unfinished;
  saves::begin(store, 2, unfinished);
  for (const fs::path& target :
       {fs::path("../checkpoints") / saves::name_of(1), checkpoint, fs::path(saves::name_of(3)),
        fs::path(saves::name_of(2)), fs::path(".")}) {
    fs::remove(folder / "checkpoints/last");
    fs::create_directory_symlink(target, folder / "checkpoints/last");
    CHECK_FALSE(store.pointed(Link::last).has_value());
  }
  CHECK(kind_of([&] { store.point(Link::last, unfinished); }) == ErrorKind::checkpoint);
}

TEST_CASE("Store: pruning keeps the named checkpoints and those with a link") {
  const TempFolder folder;
  Store store(folder.path());
  for (const std::int64_t step : {1, 2, 3, 4, 5}) saves::save(store, step);
  store.point(Link::best, folder / saves::name_of(1));
  store.point(Link::last, folder / saves::name_of(4));
  store.prune(std::vector<std::string>{saves::name_of(3), "epoch=0009-step=000009"});
  CHECK(steps(store) == Steps{4, 3, 1});
}

TEST_CASE("Store: pruning keeps the two newest checkpoints by default") {
  const TempFolder folder;
  Store store(folder.path());
  for (const std::int64_t step : {1, 2, 3, 4}) saves::save(store, step);
  store.prune({});
  CHECK(steps(store) == Steps{4, 3});
  store.prune({});
  CHECK(steps(store) == Steps{4, 3});
}

TEST_CASE("Store: a damaged checkpoint does not count as one of the two that pruning keeps") {
  const TempFolder folder;
  Store store(folder.path());
  for (const std::int64_t step : {1, 2, 3, 4}) saves::save(store, step);
  fs::resize_file(Store::part(folder / saves::name_of(4), 0), 100);
  fs::resize_file(Store::part(folder / saves::name_of(2), 1), 100);
  CHECK_THROWS_WITH(store.prune(std::vector<std::string>{saves::name_of(4)}),
                    Contains(saves::name_of(2) + " is damaged and was renamed to corrupt-") &&
                        Contains("rank_1.part has 100 bytes"));
  CHECK(steps(store) == Steps{4, 3, 1});
  CHECK(fs::exists(folder / ("corrupt-" + saves::name_of(2)) / "rank_0.part"));
}

TEST_CASE("Store: a verified checkpoint is not read again") {
  const TempFolder folder;
  Store store(folder.path());
  for (const std::int64_t step : {1, 2, 3, 4}) saves::save(store, step);
  const fs::path part = Store::part(folder / saves::name_of(4), 0);
  {
    std::fstream file(part, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-100, std::ios::end);
    file.put('\x7f');
    file.put('\x7e');
  }
  REQUIRE_THROWS_AS(Store::verify(folder / saves::name_of(4)), Error);
  CHECK_NOTHROW(store.prune({}));
  CHECK(steps(store) == Steps{4, 3});
  saves::save(store, 5);
  Store other(folder.path());  // simulates a restart
  CHECK_THROWS_WITH(other.prune({}), Contains(saves::name_of(4) + " is damaged"));
  CHECK(steps(other) == Steps{5, 3});
}

TEST_CASE("Store: a link to a deleted checkpoint is ignored and can be set again") {
  const TempFolder folder;
  Store store(folder.path());
  for (const std::int64_t step : {1, 2, 3}) saves::save(store, step);
  store.point(Link::last, folder / saves::name_of(3));
  fs::remove_all(folder / saves::name_of(3));
  CHECK_FALSE(store.pointed(Link::last).has_value());
  CHECK(store.newest_valid({}) == folder / saves::name_of(2));
  store.prune({});
  CHECK(steps(store) == Steps{2, 1});
  store.point(Link::last, folder / saves::name_of(2));
  CHECK(store.pointed(Link::last) == folder / saves::name_of(2));
}

TEST_CASE("Store: a folder that cannot be written is a resource error with its name") {
  const TempFolder folder;
  put_text(folder / "file", "x");
  Store below_a_file(folder / "file/checkpoints");
  CHECK(kind_of([&] { below_a_file.begin(saves::moment_of(1)); }) == ErrorKind::resource);

  const fs::path closed = folder / "checkpoints";
  Store store(closed);
  const fs::path checkpoint = saves::save(store, 1);
  ::chmod(folder.path().c_str(), 0755);
  ::chmod(closed.c_str(), 0555);
  {
    const UnprivilegedUser nobody;
    CHECK(kind_of([&] { store.begin(saves::moment_of(2)); }) == ErrorKind::resource);
    CHECK(kind_of([&] { store.point(Link::last, checkpoint); }) == ErrorKind::resource);
    CHECK_THROWS_WITH(store.begin(saves::moment_of(2)), Contains(closed.string()));
    CHECK(store.newest_valid({}) == checkpoint);
  }
  ::chmod(closed.c_str(), 0755);
}

TEST_CASE("Store: an unreadable checkpoint is not reported as damaged") {
  const TempFolder folder;
  Store store(folder.path());
  saves::save(store, 1);
  const fs::path checkpoint = saves::save(store, 2);
  ::chmod(folder.path().c_str(), 0755);
  ::chmod(Store::part(checkpoint, 0).c_str(), 0);
  {
    const UnprivilegedUser nobody;
    CHECK(kind_of([&] { store.newest_valid({}); }) == ErrorKind::resource);
  }
  CHECK(steps(store) == Steps{2, 1});
}
