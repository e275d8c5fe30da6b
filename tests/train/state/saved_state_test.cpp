#include "train/state/saved_state.hpp"

#include "base/machine/host_waits.hpp"
#include "checkpoint/store.hpp"
#include "device/fake_events.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <torch/types.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

using namespace trainctl;
using train::StateTensor;

namespace {

std::vector<StateTensor> state(float weight, float buffer) {
  return {{"model/w", torch::full({2, 3}, weight), false},
          {"model/b", torch::full({4}, buffer), true}};
}

/// Saves a checkpoint of `ranks` ranks whose buffers hold the rank.
std::filesystem::path save(const TempFolder& folder, int ranks) {
  checkpoint::Store store(folder.path());
  const auto path = store.begin({.global_step = 7});
  checkpoint::Manifest manifest;
  manifest.global_step = 7;
  manifest.world_size = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    train::HostCopies copies(at::kCPU, nullptr);
    copies.take(train::saved_by(state(3, static_cast<float>(rank)), rank));
    const auto part = checkpoint::Store::part(path, rank);
    container::write(part, copies.entries(), {{"training", {{"rank", rank}}}});
    manifest.parts.push_back({part.filename().string(), std::filesystem::file_size(part),
                              container::stored_checksum(part)});
  }
  store.commit(path, manifest);
  return path;
}

float first(const StateTensor& one) { return one.tensor.flatten()[0].item<float>(); }

}  // namespace

TEST_CASE("restore: each rank restores its own state and the shared state of rank 0") {
  TempFolder folder;
  const auto checkpoint = save(folder, 2);
  for (const int rank : {0, 1}) {
    const train::SavedState saved(checkpoint, {rank, 2});
    const auto own = state(0, 9);
    saved.copy_into(own);
    CHECK(first(own[0]) == 3);
    CHECK(first(own[1]) == static_cast<float>(rank));
    CHECK(saved.values().at("rank") == rank);
  }
}

TEST_CASE("restore: with another world size all ranks restore the state of rank 0") {
  TempFolder folder;
  const auto checkpoint = save(folder, 2);
  const train::SavedState saved(checkpoint, {2, 3});
  CHECK_FALSE(saved.same_world());
  const auto own = state(0, 9);
  saved.copy_into(own);
  CHECK(first(own[1]) == 0);
  const train::SavedState leader(checkpoint, {0, 3});
  REQUIRE(leader.others() == 1);
  CHECK(leader.tensors_of(1, "model/").front().tensor[0].item<float>() == 1);
}

TEST_CASE(
    "restore: a missing or unknown tensor, or another shape or dtype, is an error with the name") {
  TempFolder folder;
  const train::SavedState saved(save(folder, 1), {0, 1});
  auto more = state(0, 0);
  more.push_back({"optimizer/w.exp_avg", torch::zeros({2, 3}), false});
  CHECK_THROWS_WITH(saved.copy_into(more),
                    Contains("'optimizer/w.exp_avg'") && Contains("missing"));
  auto less = state(0, 0);
  less.pop_back();
  CHECK_THROWS_WITH(saved.copy_into(less), Contains("'model/b' is in the checkpoint"));
  auto other = state(0, 0);
  other[0].tensor = torch::zeros({3, 2});
  CHECK_THROWS_WITH(
      saved.copy_into(other),
      Contains("'model/w' is F32 [2, 3] in the checkpoint and F32 [3, 2] in this run"));
  other[0].tensor = torch::zeros({2, 3}, torch::kDouble);
  CHECK_THROWS_WITH(saved.copy_into(other), Contains("F64"));
}

TEST_CASE("restore: a rank may omit only tensors that other ranks own") {
  TempFolder folder;
  const train::SavedState saved(save(folder, 2), {0, 2});
  auto own = state(0, 0);
  own.erase(own.begin());  // another rank owns model/w
  CHECK_THROWS_WITH(saved.copy_into(own), Contains("'model/w' is in the checkpoint"));
  CHECK_THROWS_WITH(saved.copy_into(own, {"model/x", "optimizer/"}), Contains("'model/w'"));
  CHECK_NOTHROW(saved.copy_into(own, {"model/x", "model/w"}));
}

TEST_CASE("restore: state owned by one rank is found in any part, for any number of ranks") {
  TempFolder folder;
  checkpoint::Store store(folder.path());
  const auto path = store.begin({.global_step = 7});
  checkpoint::Manifest manifest;
  manifest.global_step = 7;
  manifest.world_size = 4;
  for (int rank = 0; rank < 4; ++rank) {
    train::HostCopies copies(at::kCPU, nullptr);
    const at::Tensor value = torch::full({2}, static_cast<float>(rank + 1));
    copies.take({{"optimizer/p" + std::to_string(rank), value}});
    const auto part = checkpoint::Store::part(path, rank);
    container::write(part, copies.entries(), {{"training", {{"rank", rank}}}});
    manifest.parts.push_back({part.filename().string(), std::filesystem::file_size(part),
                              container::stored_checksum(part)});
  }
  store.commit(path, manifest);
  for (const dist::RankInfo place :
       {dist::RankInfo{2, 4}, dist::RankInfo{0, 1}, dist::RankInfo{1, 2}}) {
    std::vector<StateTensor> own;
    for (const int rank : {3, 0, 2, 1})
      own.push_back({"optimizer/p" + std::to_string(rank), torch::zeros({2}), false, true});
    const train::SavedState saved(path, place);
    saved.copy_into(own);
    for (std::size_t i = 0; i < own.size(); ++i)
      CHECK(first(own[i]) == std::vector<float>{4, 1, 3, 2}[i]);
    own.push_back({"optimizer/none", torch::zeros({2}), false, true});
    CHECK_THROWS_WITH(saved.copy_into(own), Contains("'optimizer/none'") && Contains("missing"));
  }
}

TEST_CASE("HostCopies: tensors of any layout are copied contiguously, and buffers are reused") {
  const at::Tensor tensor = torch::arange(6, torch::kFloat).view({2, 3}).t();
  train::HostCopies copies(at::kCPU, nullptr);
  copies.take({{"a", tensor}});
  const auto entries = copies.entries();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].shape == std::vector<std::int64_t>{3, 2});
  const auto* values = reinterpret_cast<const float*>(entries[0].bytes.data());
  CHECK(values[1] == 3);
  tensor.add_(1);
  CHECK(values[1] == 3);
  copies.take({{"a", tensor}});
  CHECK(copies.entries()[0].bytes.data() == entries[0].bytes.data());
  CHECK(values[1] == 4);
}

TEST_CASE("HostCopies: the memory is whole pages, and a smaller state reuses it") {
  train::HostCopies copies(at::kCPU, nullptr);
  const auto is_whole = [](std::uint64_t number) {
    return number % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) == 0;
  };
  const std::int64_t size = GENERATE(1, 1024, 5000);
  copies.take({{"a", torch::ones({size})}, {"b", torch::full({size}, 2.0)}});
  const std::span<const std::byte> memory = copies.memory();
  CHECK(is_whole(reinterpret_cast<std::uintptr_t>(memory.data())));
  CHECK(is_whole(memory.size()));
  for (const container::Entry& entry : copies.entries()) {
    CHECK(entry.bytes.data() >= memory.data());
    CHECK(entry.bytes.data() + entry.bytes.size() <= memory.data() + memory.size());
  }
  copies.take({{"c", torch::full({size}, 3.0)}});
  CHECK(copies.memory().data() == memory.data());
  CHECK(*reinterpret_cast<const float*>(copies.entries().at(0).bytes.data()) == 3);
}

TEST_CASE("obstacle_to_save: a state with non-finite weights or too many skipped steps") {
  train::HostCopies copies(at::kCPU, nullptr);
  const auto obstacle = [&](const at::Tensor& weight, float skipped) {
    copies.take({{"model/fc1.weight", weight},
                 {"optimizer/fc1.weight.exp_avg", torch::full({2}, INFINITY)},
                 {"scaler/skipped", torch::tensor({9.0F, 0.0F, skipped})}});
    return train::obstacle_to_save(copies.entries(), 2);
  };
  CHECK(obstacle(torch::ones({2, 3}), 2).empty());
  CHECK(obstacle(torch::ones({2, 3}), 3) == "the gradients of 3 steps in a row were not finite");
  CHECK(obstacle(torch::full({5}, NAN), 0) == "'fc1.weight' contains values that are not finite");
}

TEST_CASE("HostCopies: copies of a GPU are complete when its event is done") {
  FakeDevice gpu;
  const auto before = host_waits();
  train::HostCopies copies(at::kCPU, gpu.event());
  CHECK(copies.complete());
  copies.take({{"a", torch::ones({2})}});
  CHECK_FALSE(copies.complete());
  gpu.finish_all();
  CHECK(copies.complete());
  CHECK(gpu.waits == 0);
  CHECK(host_waits_since(before).size() == 1);  // the memory of this test is not page-locked
}
