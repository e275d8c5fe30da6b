#include "checkpoint/parts.hpp"

#include "base/safetensors.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/listing.hpp"
#include "checkpoint/verify.hpp"
#include "saves.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <map>

using namespace trainctl;
using namespace trainctl::checkpoint;

namespace {

constexpr std::size_t kNumbers = 4096;

/// The weights and the state of a checkpoint. Each tensor is filled with one number.
struct StoredState {
  float model = 1;
  float optimizer = 2;
  float average = 0;  // 0 means no average
  float best = 0;
  float stoppers_best = 0;
};

/// Each group has two tensors, so that names matter.
class StoredTensors {
 public:
  explicit StoredTensors(const StoredState& state) {
    add("model/", state.model);
    add("optimizer/", state.optimizer);
    add("averager/", state.average);
    add("keeper/best.", state.best);
    add("keeper/stoppers_best.", state.stoppers_best);
  }
  [[nodiscard]] std::vector<container::Entry> entries() const {
    std::vector<container::Entry> entries;
    for (const auto& [name, values] : values_)
      entries.push_back({name,
                         "F32",
                         {static_cast<std::int64_t>(values.size())},
                         std::as_bytes(std::span(values))});
    return entries;
  }

 private:
  void add(const std::string& prefix, float value) {
    if (value == 0) return;
    values_[prefix + "fc.weight"].assign(kNumbers, value);
    values_[prefix + "fc.bias"].assign(8, -value);
  }
  std::map<std::string, std::vector<float>> values_;
};

constexpr std::uint64_t kGroupBytes = (kNumbers + 8) * sizeof(float);

struct SharedSaves {
  TempFolder folder;
  Store store{folder.path()};

  fs::path save(std::int64_t step, const StoredState& state) {
    const StoredTensors tensors(state);
    const fs::path checkpoint = store.begin(saves::moment_of(step));
    commit(step, checkpoint, store_once(store, checkpoint, tensors.entries()));
    return checkpoint;
  }
  void commit(std::int64_t step, const fs::path& checkpoint, StoredOnce stored) {
    const fs::path part = Store::part(checkpoint, 0);
    container::write(part, stored.part, {{"training", Json::object()}});
    Manifest manifest = saves::manifest_of(step);
    manifest.world_size = 1;
    manifest.parts = {
        {part.filename().string(), fs::file_size(part), container::File(part).header_checksum()}};
    manifest.shared = std::move(stored.shared);
    store.commit(checkpoint, manifest);
  }
  void write_best(float value) const {
    const std::vector<float> weight(kNumbers, value), bias(8, -value);
    const std::vector<safetensors::View> views{
        {"fc.weight", "F32", {kNumbers}, std::as_bytes(std::span(weight))},
        {"fc.bias", "F32", {8}, std::as_bytes(std::span(bias))}};
    safetensors::write(folder / "best.safetensors", views, {{"metric", "val/loss"}});
  }
};

/// Checks that all bytes equal the saved ones.
void check_holds(const fs::path& checkpoint, const StoredState& state) {
  const PartReader reader(checkpoint, read_manifest(checkpoint), 0);
  const StoredTensors tensors(state);
  const std::vector<container::Entry> expected = tensors.entries();
  CHECK(reader.entries().size() == expected.size());
  for (const container::Entry& entry : expected) {
    INFO(entry.name);
    const container::Entry* found = reader.find(entry.name);
    REQUIRE(found != nullptr);
    CHECK(found->dtype == entry.dtype);
    CHECK(found->shape == entry.shape);
    CHECK(std::ranges::equal(found->bytes, entry.bytes));
  }
  CHECK(reader.find("keeper/best.fc") == nullptr);
}

std::uint64_t part_bytes(const fs::path& checkpoint) {
  return fs::file_size(Store::part(checkpoint, 0));
}

constexpr std::uint64_t kHeader = 2048;  // no header in these tests is larger

}  // namespace

TEST_CASE("store_once: weights that equal another group are stored once") {
  SharedSaves saves;
  const StoredState best{.model = 1, .best = 1, .stoppers_best = 1};
  const fs::path first = saves.save(1, best);
  CHECK(part_bytes(first) < kGroupBytes + kHeader);
  CHECK(fs::file_size(first / "best.safetensors") < kGroupBytes + kHeader);
  CHECK(read_manifest(first).shared.size() == 3);
  check_holds(first, best);
  // Validation used the average.
  const StoredState averaged{.model = 1, .average = 3, .best = 3};
  const fs::path second = saves.save(2, averaged);
  CHECK(part_bytes(second) < 2 * kGroupBytes + kHeader);
  check_holds(second, averaged);
  CHECK(fs::hard_link_count(second / "best.safetensors") == 1);
}

TEST_CASE("store_once: later checkpoints share the file of the best weights") {
  const auto added = [](const fs::path& checkpoint) {
    return part_bytes(checkpoint) + fs::file_size(checkpoint / "manifest");
  };
  SharedSaves saves;
  SECTION("weights of the model") {
    const fs::path best = saves.save(1, {.model = 1, .best = 1});
    const StoredState later{.model = 3, .best = 1, .stoppers_best = 1};
    const fs::path last = saves.save(2, later);
    CHECK(fs::equivalent(best / "best.safetensors", last / "best.safetensors"));
    CHECK(added(best) < kGroupBytes + 2 * kHeader);
    CHECK(added(last) < 2 * kGroupBytes + 2 * kHeader);
    saves.store.point(Link::last, last);
    fs::remove_all(best);
    check_holds(last, later);
  }
  SECTION("weights of the average") {
    const fs::path best = saves.save(1, {.model = 1, .average = 2, .best = 2});
    const StoredState later{.model = 3, .average = 4, .best = 2};
    const fs::path last = saves.save(2, later);
    CHECK(fs::equivalent(best / "best.safetensors", last / "best.safetensors"));
    CHECK(added(last) < 3 * kGroupBytes + 2 * kHeader);
    check_holds(last, later);
  }
  SECTION("weights that only early stopping needs") {
    const fs::path best = saves.save(1, {.model = 1, .best = 2, .stoppers_best = 1});
    const StoredState later{.model = 3, .best = 2, .stoppers_best = 1};
    const fs::path last = saves.save(2, later);
    for (const char* file : {"best.safetensors", "stoppers_best.safetensors"})
      CHECK(fs::equivalent(best / file, last / file));
    CHECK(added(best) < kGroupBytes + 2 * kHeader);
    check_holds(last, later);
  }
}

TEST_CASE("PartReader: best weights that are stored with the model are read") {
  // An earlier version stored the groups in the opposite direction, in the same format.
  SharedSaves saves;
  const StoredState state{.model = 1, .average = 1, .best = 1};
  const StoredTensors tensors(state);
  const fs::path checkpoint = saves.store.begin(saves::moment_of(1));
  StoredOnce stored;
  for (const container::Entry& entry : tensors.entries()) {
    if (entry.name.starts_with("model/") || entry.name.starts_with("optimizer/"))
      stored.part.push_back(entry);
  }
  stored.shared = {{.group = "averager/", .same_as = "model/"},
                   {.group = "keeper/best.", .same_as = "averager/"}};
  saves.commit(1, checkpoint, std::move(stored));
  check_holds(checkpoint, state);
}

TEST_CASE("store_once: weights that differ in one bit are stored separately") {
  SharedSaves saves;
  const StoredState state{.model = 0.5F, .best = 0.50000006F};
  const fs::path saved = saves.save(1, state);
  CHECK(fs::is_regular_file(saved / "best.safetensors"));
  check_holds(saved, state);
}

TEST_CASE("store_once: writing to best.safetensors changes no checkpoint") {
  SharedSaves saves;
  saves.write_best(7);
  const StoredState state{.model = 1, .best = 7};
  const fs::path saved = saves.save(1, state);
  CHECK(part_bytes(saved) < 2 * kGroupBytes + kHeader);
  const fs::path best = saves.folder / "best.safetensors";
  CHECK_FALSE(fs::equivalent(saved / "best.safetensors", best));
  CHECK(fs::hard_link_count(best) == 1);
  const fs::path second = saves.save(2, {.model = 2, .best = 7});
  CHECK(fs::equivalent(saved / "best.safetensors", second / "best.safetensors"));
  const auto rows = survey(saves.folder.path(), Depth::everything);
  CHECK(rows[1].bytes < 2 * kGroupBytes + 3 * kHeader);  // the newer one counts the shared file
  put_text(best, std::string(fs::file_size(best), 'x'));
  check_holds(saved, state);
  check_holds(second, {.model = 2, .best = 7});
  CHECK_FALSE(damage(saved).has_value());
}

TEST_CASE("store_once: best weights without a file are written once for all checkpoints") {
  SharedSaves saves;
  saves.write_best(3);  // these are not the best weights
  const StoredState state{.model = 1, .best = 7, .stoppers_best = 8};
  const fs::path first = saves.save(1, state);
  const fs::path second = saves.save(2, {.model = 2, .best = 7, .stoppers_best = 8});
  for (const char* file : {"best.safetensors", "stoppers_best.safetensors"})
    CHECK(fs::equivalent(first / file, second / file));
  // The early stopper still needs weights that are no longer the best.
  const StoredState after{.model = 3, .best = 3, .stoppers_best = 7};
  const fs::path third = saves.save(3, after);
  CHECK(fs::equivalent(third / "stoppers_best.safetensors", first / "best.safetensors"));
  check_holds(third, after);
  const std::vector<std::string> keep{third.filename().string()};
  saves.store.point(Link::last, third);
  saves.store.prune(keep);
  CHECK_FALSE(fs::exists(first));
  check_holds(second, {.model = 2, .best = 7, .stoppers_best = 8});
  CHECK(saves.store.newest_valid({}) == third);
}

TEST_CASE("store_once: a damaged or foreign best.safetensors is not copied") {
  const StoredState state{.model = 1, .best = 7};
  SharedSaves saves;
  const fs::path best = saves.folder / "best.safetensors";
  SECTION("damaged") {
    saves.write_best(7);
    std::string bytes = read_file(best, 1 << 20, ReadFailure::resource);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    put_text(best, bytes);
  }
  SECTION("not a safetensors file") { put_text(best, "not weights"); }
  SECTION("a symbolic link") {
    saves.write_best(7);
    fs::rename(best, saves.folder / "elsewhere");
    fs::create_symlink("elsewhere", best);
  }
  SECTION("a folder") { fs::create_directory(best); }
  const fs::path saved = saves.save(1, state);
  check_holds(saved, state);
  CHECK(fs::symlink_status(saved / "best.safetensors").type() == fs::file_type::regular);
}

TEST_CASE("PartReader: damage in a shared file is detected and named") {
  SharedSaves saves;
  const fs::path saved = saves.save(1, {.model = 1, .best = 7});
  const fs::path file = saved / "best.safetensors";
  const std::string intact = read_file(file, 1 << 20, ReadFailure::resource);
  std::string bytes = intact;
  SECTION("a flipped bit") {
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    put_text(file, bytes);
    CHECK_THAT(damage(saved).value_or(""), Contains("best.safetensors") && Contains("CRC-32C"));
  }
  SECTION("truncated") {
    fs::resize_file(file, intact.size() - 1);
    CHECK_THAT(damage(saved).value_or(""), Contains(", expected "));
  }
  SECTION("missing") {
    fs::remove(file);
    CHECK_THAT(damage(saved).value_or(""), Contains("best.safetensors is missing"));
  }
  CHECK_THROWS_AS(PartReader(saved, read_manifest(saved), 0), Error);
}

TEST_CASE("contents_of: a tensor has the name of the file that stores it") {
  SharedSaves saves;
  const fs::path saved = saves.save(1, {.model = 1, .best = 7, .stoppers_best = 1});
  std::map<std::string, std::string> files;
  for (const Tensor& tensor : contents_of(saved).tensors)
    files[tensor.group + "/" + tensor.name] = tensor.part;
  CHECK(files.at("keeper/best.fc.bias") == "best.safetensors");
  CHECK(files.at("optimizer/fc.bias") == "rank_0.part");
  CHECK(files.at("keeper/stoppers_best.fc.bias") == "stoppers_best.safetensors");
  CHECK(files.at("model/fc.bias") == "stoppers_best.safetensors");
}
