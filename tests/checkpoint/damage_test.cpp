// These checkpoints are damaged after they were committed.

#include "checkpoint/store.hpp"
#include "saves.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <sys/stat.h>

#include <fstream>

using namespace trainctl;
using namespace trainctl::checkpoint;

namespace {

struct Quarantined {
  fs::path moved;
  std::string why;
};

/// Stores three checkpoints, of which the tests damage the newest.
struct ThreeSaves {
  TempFolder folder;
  Store store{folder.path()};
  fs::path newest;
  std::vector<Quarantined> reported;

  ThreeSaves() {
    for (const std::int64_t step : {1, 2, 3}) newest = saves::save(store, step);
  }
  [[nodiscard]] fs::path of(std::int64_t step) const { return folder / saves::name_of(step); }
  std::optional<fs::path> newest_valid() {
    return store.newest_valid([this](const fs::path& moved, const std::string& why) {
      reported.push_back({moved, why});
    });
  }
};

void flip_bit(const fs::path& path, std::uintmax_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

void write_manifest(const fs::path& checkpoint, const Json& meta) {
  container::write(checkpoint / kManifestName, {}, meta);
}

Json meta_of(const fs::path& checkpoint) {
  return container::File(checkpoint / kManifestName).meta();
}

/// Checks that the newest is rejected for `reason` and renamed, and that the previous one is used.
void check_fallback(ThreeSaves& three, const std::string& reason) {
  CHECK(three.newest_valid() == three.of(2));
  REQUIRE(three.reported.size() == 1);
  CHECK(three.reported[0].moved == three.folder / ("corrupt-" + saves::name_of(3)));
  CHECK_THAT(three.reported[0].why, Contains(reason));
  CHECK(fs::is_directory(three.reported[0].moved));
  CHECK_FALSE(fs::exists(three.newest));
  three.reported.clear();
  CHECK(three.newest_valid() == three.of(2));
  CHECK(three.reported.empty());
}

}  // namespace

TEST_CASE(
    "newest_valid: a flipped bit in a part is reported, and the previous checkpoint is used") {
  ThreeSaves three;
  const fs::path part = Store::part(three.newest, 1);
  flip_bit(part, fs::file_size(part) - 100);
  CHECK_THROWS_WITH(Store::verify(three.newest),
                    Contains("rank_1.part") && Contains("model/fc.weight"));
  check_fallback(three, "model/fc.weight");
}

TEST_CASE(
    "newest_valid: missing bytes, missing files or wrong file types quarantine a checkpoint") {
  ThreeSaves three;
  const fs::path part = Store::part(three.newest, 0);
  const fs::path manifest = three.newest / "manifest";
  std::string reason;
  SECTION("a truncated part") {
    fs::resize_file(part, 1000);
    reason = "rank_0.part has 1,000 bytes, expected ";
  }
  SECTION("a missing part") {
    fs::remove(part);
    reason = "rank_0.part is missing";
  }
  SECTION("a pipe instead of a part") {
    fs::remove(part);
    REQUIRE(::mkfifo(part.c_str(), 0644) == 0);
    reason = "rank_0.part is not a regular file";
  }
  SECTION("a link instead of a part") {
    fs::rename(part, three.newest / "elsewhere");
    fs::create_symlink("elsewhere", part);
    reason = "cannot read";
  }
  SECTION("a manifest with a flipped bit") {
    flip_bit(manifest, 70);
    reason = "manifest";
  }
  SECTION("an empty manifest") {
    fs::resize_file(manifest, 0);
    reason = "manifest";
  }
  SECTION("a manifest of many gigabytes") {
    fs::resize_file(manifest, std::uintmax_t{1} << 36);
    reason = "more than the limit of ";
  }
  SECTION("a folder instead of the manifest") {
    fs::remove(manifest);
    fs::create_directory(manifest);
    reason = "manifest is not a regular file";
  }
  SECTION("tensors in the manifest") {
    fs::copy_file(part, manifest, fs::copy_options::overwrite_existing);
    reason = "must not contain tensors";
  }
  check_fallback(three, reason);
}

TEST_CASE("newest_valid: a part from another step is detected") {
  ThreeSaves three;
  fs::copy_file(Store::part(three.of(2), 0), Store::part(three.newest, 0),
                fs::copy_options::overwrite_existing);
  const auto committed = meta_of(three.newest)["parts"][0]["bytes"].get<std::uintmax_t>();
  REQUIRE(fs::file_size(Store::part(three.newest, 0)) == committed);
  check_fallback(three, "is from another checkpoint");
}

TEST_CASE("newest_valid: parts that were swapped between ranks are detected") {
  ThreeSaves three;
  fs::rename(Store::part(three.newest, 0), three.newest / "x");
  fs::rename(Store::part(three.newest, 1), Store::part(three.newest, 0));
  fs::rename(three.newest / "x", Store::part(three.newest, 1));
  check_fallback(three, "is from another checkpoint");
}

TEST_CASE("newest_valid: a checkpoint in a folder named after another step is detected") {
  ThreeSaves three;
  fs::remove_all(three.newest);
  fs::copy(three.of(1), three.newest, fs::copy_options::recursive);
  check_fallback(three, "is from another checkpoint, " + saves::name_of(1));
}

TEST_CASE("verify: a copy of a checkpoint with another folder name is valid") {
  ThreeSaves three;
  fs::copy(three.newest, three.folder / "mine", fs::copy_options::recursive);
  CHECK_NOTHROW(Store::verify(three.folder / "mine"));
}

TEST_CASE("newest_valid: an invalid manifest in an intact container is damage") {
  ThreeSaves three;
  Json meta = meta_of(three.newest);
  std::string reason;
  SECTION("a negative step") {
    meta["step_in_epoch"] = -3;
    reason = "must not be negative";
  }
  SECTION("no ranks") {
    meta["world_size"] = 0;
    reason = "from 1 to 65536";
  }
  SECTION("more ranks than parts") {
    meta["world_size"] = 3;
    reason = "must have one entry per rank, got 2 for 3 ranks";
  }
  SECTION("a part outside of the folder") {
    meta["parts"][0]["file"] = "../" + saves::name_of(2) + "/rank_0.part";
    reason = "the part of rank 0 is named";
  }
  write_manifest(three.newest, meta);
  CHECK_THAT(three.store.list().front().why, Contains(reason));
  CHECK_FALSE(three.store.list().front().manifest.has_value());
  check_fallback(three, reason);
}

TEST_CASE("Store: a checkpoint of another format is an error and stays where it is") {
  ThreeSaves three;
  for (const int format : {1, 2, 4}) {
    CAPTURE(format);
    Json meta = meta_of(three.newest);
    meta["format"] = format;
    write_manifest(three.newest, meta);
    CHECK_THROWS_AS(three.newest_valid(), UnsupportedFormat);
    CHECK_THROWS_AS(Store::verify(three.newest), UnsupportedFormat);
    CHECK(three.reported.empty());
    const std::vector<StoredCheckpoint> found = three.store.list();
    REQUIRE(found.size() == 3);
    CHECK(found.front().unsupported);
    CHECK_FALSE(found.front().manifest.has_value());
    CHECK_FALSE(found[1].unsupported);
    saves::save(three.store, 9);
    const std::vector<std::string> keep{saves::name_of(9)};
    three.store.prune(keep);
    // The unsupported checkpoint, the one to keep and one other valid checkpoint are left.
    CHECK(three.store.list().size() == 3);
    CHECK(fs::is_directory(three.newest));
    fs::remove_all(three.of(9));
    for (const std::int64_t step : {1, 2}) {
      if (!fs::exists(three.of(step))) saves::save(three.store, step);
    }
    CHECK_THROWS_AS(saves::save(three.store, 3), UnsupportedFormat);
    CHECK(fs::is_directory(three.newest));
  }
}

TEST_CASE("newest_valid: it throws at every call if no checkpoint is valid") {
  ThreeSaves three;
  for (const std::int64_t step : {1, 2, 3}) flip_bit(Store::part(three.of(step), 0), 3000);
  for (const char* words : {"no checkpoint in", "only damaged ones"}) {
    try {
      three.newest_valid();
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::checkpoint);
      CHECK_THAT(error.what(), Contains(words) && Contains(three.folder.path().string()));
    }
  }
  REQUIRE(three.reported.size() == 3);
  CHECK_THAT(three.reported[0].moved.string(), EndsWith(saves::name_of(3)));
  CHECK_THAT(three.reported[2].moved.string(), EndsWith(saves::name_of(1)));
}

TEST_CASE("newest_valid: a quarantined checkpoint gets a number if its name is taken") {
  ThreeSaves three;
  put_text(three.folder / ("corrupt-" + saves::name_of(3)) / "x", "");
  put_text(three.folder / ("corrupt-" + saves::name_of(3) + "-2"), "");
  fs::remove(Store::part(three.newest, 0));
  CHECK(three.newest_valid() == three.of(2));
  CHECK(three.reported.at(0).moved == three.folder / ("corrupt-" + saves::name_of(3) + "-3"));
}

TEST_CASE("Store: saving a step again quarantines its damaged checkpoint") {
  ThreeSaves three;
  fs::remove(Store::part(three.newest, 0));
  CHECK(saves::holds(saves::save(three.store, 3), 3));
  CHECK(fs::exists(three.folder / ("corrupt-" + saves::name_of(3)) / "manifest"));
}
