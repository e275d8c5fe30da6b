#include "checkpoint/contents.hpp"

#include "base/safetensors.hpp"
#include "checkpoint/export.hpp"
#include "saves.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <array>
#include <cstring>
#include <map>

using namespace trainctl;
using namespace trainctl::checkpoint;

namespace {

using Values = std::map<std::string, std::array<float, 2>>;

const Values kTensors{{"model/fc.weight", {1, 2}},      {"optimizer/fc.weight.exp_avg", {3, 4}},
                      {"averager/fc.weight", {5, 6}},   {"keeper/best.fc.weight", {7, 8}},
                      {"keeper/stoppers_best.fc", {0}}, {"modeled/fc.weight", {9, 9}}};

/// Saves a checkpoint of one rank at step 12.
fs::path save(const fs::path& folder, const Values& tensors, const Json& training) {
  Store store(folder);
  Manifest manifest = saves::manifest_of(12);
  manifest.world_size = 1;
  const fs::path checkpoint = store.begin(manifest.moment());
  std::vector<container::Entry> entries;
  for (const auto& [name, values] : tensors)
    entries.push_back({name, "F32", {2}, std::as_bytes(std::span(values))});
  const fs::path part = Store::part(checkpoint, 0);
  container::write(part, entries, {{"training", training}});
  manifest.parts.push_back(
      {part.filename().string(), fs::file_size(part), container::File(part).header_checksum()});
  store.commit(checkpoint, manifest);
  return checkpoint;
}

Json averaged(int updates) { return {{"averager", {{"updates", updates}}}, {"optimizer", {}}}; }

/// Returns the two numbers of the only tensor.
std::array<float, 2> only_tensor(const fs::path& path) {
  const safetensors::File file(path);
  REQUIRE(file.tensors().size() == 1);
  CHECK(file.tensors()[0].name == "fc.weight");
  std::array<float, 2> values{};
  REQUIRE(file.tensors()[0].bytes.size() == sizeof values);
  std::memcpy(values.data(), file.tensors()[0].bytes.data(), sizeof values);
  return values;
}

}  // namespace

TEST_CASE("contents_of: tensors are listed with their groups") {
  const TempFolder folder;
  const Contents contents = contents_of(save(folder.path(), kTensors, averaged(3)));
  REQUIRE(contents.manifest.has_value());
  CHECK(contents.manifest->global_step == 12);
  REQUIRE(contents.tensors.size() == kTensors.size());
  for (const Tensor& tensor : contents.tensors) {
    CHECK(kTensors.contains(tensor.group + "/" + tensor.name));
    CHECK(tensor.dtype == "F32");
    CHECK(tensor.bytes == 8);
    CHECK(tensor.part == "rank_0.part");
  }
  CHECK(contents.training["averager"]["updates"] == 3);
  CHECK(group_of("fc.weight").empty());
}

TEST_CASE("contents_of_file: a checkpoint file outside a run folder is listed") {
  const TempFolder folder;
  const fs::path checkpoint = save(folder.path(), kTensors, averaged(3));
  const Contents whole = contents_of(checkpoint);
  const fs::path moved = folder / "some.part";
  fs::copy_file(Store::part(checkpoint, 0), moved);
  const Contents part = contents_of_file(moved);
  CHECK_FALSE(part.manifest);
  REQUIRE(part.tensors.size() == whole.tensors.size());
  CHECK(part.tensors.front().name == whole.tensors.front().name);
  CHECK(part.tensors.front().part == "some.part");
  CHECK(part.training == whole.training);
  CHECK(part.meta == Json::object());
  const Contents manifest = contents_of_file(checkpoint / kManifestName);
  REQUIRE(manifest.manifest.has_value());
  CHECK(manifest.manifest->parts.size() == 1);
  CHECK(manifest.tensors.empty());
  fs::resize_file(moved, fs::file_size(moved) - 1);
  CHECK_THROWS_AS(contents_of_file(moved), Error);
}

TEST_CASE("export: weights have the names of the model") {
  const TempFolder folder;
  const fs::path checkpoint = save(folder.path(), kTensors, averaged(3));
  const fs::path out = folder / "out.safetensors";
  const std::map<Weights, std::array<float, 2>> expected{{Weights::model, {1, 2}},
                                                         {Weights::ema, {5, 6}},
                                                         {Weights::best, {7, 8}},
                                                         {Weights::validated, {5, 6}}};
  for (const auto& [weights, values] : expected) {
    const Exported done = export_weights(checkpoint, weights, out);
    CHECK(done.tensors == 1);
    CHECK(only_tensor(out) == values);
  }
  CHECK(export_weights(checkpoint, Weights::validated, out).weights == Weights::ema);
  CHECK(safetensors::File(out).metadata().at("weights") == "ema");
  CHECK(safetensors::File(out).metadata().at("global_step") == "12");
}

TEST_CASE("export: before an average has started, the model is exported") {
  const TempFolder folder;
  const fs::path checkpoint = save(folder.path(), kTensors, averaged(0));
  const fs::path out = folder / "out.safetensors";
  CHECK(export_weights(checkpoint, Weights::validated, out).weights == Weights::model);
  CHECK(only_tensor(out) == std::array<float, 2>{1, 2});
}

TEST_CASE("export: missing weights are an error and no file is written") {
  const TempFolder folder;
  const fs::path checkpoint = save(folder.path(), {{"model/fc.weight", {1, 2}}}, {});
  const fs::path out = folder / "out.safetensors";
  CHECK_THROWS_WITH(export_weights(checkpoint, Weights::ema, out), Contains("no average"));
  CHECK_THROWS_WITH(export_weights(checkpoint, Weights::best, out), Contains("no best weights"));
  CHECK_FALSE(fs::exists(out));
  fs::resize_file(Store::part(checkpoint, 0), fs::file_size(Store::part(checkpoint, 0)) - 1);
  CHECK_THROWS_WITH(export_weights(checkpoint, Weights::model, out), Contains(", expected "));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("first_difference: it is the first tensor or value of a section that differs") {
  const TempFolder folder;
  const fs::path expected = save(folder / "a", kTensors, averaged(3));
  const Section model{{"model"}, {"averager"}};
  const Section optimizer{{"optimizer"}, {"optimizer"}};
  const auto first = [&](const fs::path& found, const Section& section) {
    return first_difference(expected, found, section).value_or("");
  };
  CHECK(first(save(folder / "same", kTensors, averaged(3)), model).empty());

  Values changed = kTensors;
  changed["model/fc.weight"][1] = -2;
  const fs::path other = save(folder / "changed", changed, averaged(3));
  CHECK_THAT(first(other, model),
             StartsWith("rank_0.part: model/fc.weight differs, first at byte 7 of 8"));
  CHECK(first(other, optimizer).empty());

  changed = kTensors;
  changed.erase("optimizer/fc.weight.exp_avg");
  CHECK_THAT(first(save(folder / "less", changed, averaged(3)), optimizer), Contains("is missing"));
  changed = kTensors;
  changed["optimizer/more"] = {1, 1};
  CHECK_THAT(first(save(folder / "more", changed, averaged(3)), optimizer),
             Contains("optimizer/more is not in the expected checkpoint"));
  CHECK_THAT(first(save(folder / "values", kTensors, averaged(4)), model), Contains("averager"));
}
