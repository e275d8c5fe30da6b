#include "base/error.hpp"
#include "dist/communicator.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

/// Returns the error of each rank when the ranks compare these lines.
std::vector<std::string> mismatches(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::string> messages(lines.size());
  RankGroup group(static_cast<int>(lines.size()));
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const auto at = static_cast<std::size_t>(rank);
    try {
      dist::verify_equal(*communicator, lines[at], "parameters");
    } catch (const Error& error) {
      expect(error.kind() == ErrorKind::config, "the error has another kind");
      messages[at] = error.what();
    }
    communicator->barrier("end");  // all are still in step
  });
  return messages;
}

}  // namespace

TEST_CASE("description_of: states name, dtype, shape and whether the tensor is trainable") {
  CHECK(dist::description_of("fc.weight", torch::zeros({2, 3}, torch::requires_grad())) ==
        "fc.weight: Float [2, 3]");
  CHECK(dist::description_of("count", torch::zeros({}, torch::kLong)) ==
        "count: Long [], not trained");
  CHECK(dist::descriptions_of({torch::zeros({1}), torch::zeros({2})})[1] ==
        "number 2: Float [2], not trained");
}

TEST_CASE("verify_equal: equal ranks pass, and a single rank does not communicate") {
  for (const std::string& message : mismatches({{"a", "b"}, {"a", "b"}, {"a", "b"}}))
    CHECK(message.empty());
  for (const std::string& message : mismatches({{}, {}})) CHECK(message.empty());
  const auto alone = dist::make_single();
  dist::verify_equal(*alone, {"a"}, "parameters");
}

TEST_CASE("verify_equal: every rank reports the rank that differs and its first difference") {
  const auto changed = mismatches({{"a", "b", "c"}, {"a", "b", "c"}, {"a", "x", "c"}});
  for (const std::string& message : changed) {
    CHECK(message == changed.front());
    CHECK_THAT(message, Contains("the parameters of the ranks differ: rank 2 has 'x' where rank 0 "
                                 "has 'b'"));
  }
  const auto shorter = mismatches({{"a", "b"}, {"a"}});
  CHECK_THAT(shorter[0], Contains("rank 1 lacks 'b', which rank 0 has"));
  CHECK(shorter[1] == shorter[0]);
  CHECK_THAT(mismatches({{"a"}, {"a", "b"}})[0], Contains("rank 1 has 'b', which rank 0 lacks"));
  CHECK_THAT(mismatches({{}, {"a"}})[1], Contains("rank 1 has "));
}

TEST_CASE("all_gather: every rank gets the tensors of all ranks in rank order") {
  for (const int world : {1, 2, 3, 4}) {
    std::vector<std::vector<at::Tensor>> found(static_cast<std::size_t>(world));
    RankGroup group(world);
    group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
      found[static_cast<std::size_t>(rank)] =
          communicator->all_gather(torch::tensor({rank, 10 * rank}), "numbers");
    });
    for (const auto& all : found) {
      REQUIRE(all.size() == static_cast<std::size_t>(world));
      for (int rank = 0; rank < world; ++rank)
        CHECK(torch::equal(all[static_cast<std::size_t>(rank)], torch::tensor({rank, 10 * rank})));
    }
  }
  const auto alone = dist::make_single();
  const at::Tensor mine = torch::ones({2});
  const auto copies = alone->all_gather(mine, "numbers");
  REQUIRE(copies.size() == 1);
  CHECK(torch::equal(copies[0], mine));
  CHECK(copies[0].data_ptr() != mine.data_ptr());
}

TEST_CASE("heartbeat: the page shows the name of the running collective") {
  RankGroup group(2);
  std::atomic<bool> seen = false;
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    communicator->barrier("start");
    if (rank == 1) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!seen && std::chrono::steady_clock::now() < until) {
        const events::Collective call = group.page(0).collective();
        seen = call.in_progress && call.name == "sum of the losses";
        std::this_thread::yield();
      }
    }
    communicator->sum(torch::ones({1}), "sum of the losses");
  });
  CHECK(seen);
  CHECK_FALSE(group.page(0).collective().in_progress);
  CHECK(group.page(1).collective().name == "sum of the losses");
}

TEST_CASE("Communicator: with a lost rank, every collective is an error that names the call") {
  using Call = std::function<void(dist::Communicator&)>;
  const std::vector<std::pair<std::string, Call>> calls{
      {"a copy", [](auto& c) { c.broadcast(torch::ones({1}), "a copy"); }},
      {"numbers", [](auto& c) { (void)c.all_gather(torch::ones({1}), "numbers"); }},
      {"the end", [](auto& c) { c.barrier("the end"); }},
      {"comparison of the parameters",
       [](auto& c) { dist::verify_equal(c, {"a"}, "parameters"); }}};
  for (const auto& [name, call] : calls) {
    RankGroup group(2);
    const auto thrown = group.run([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
      communicator->barrier("the start");  // both have joined then
      if (rank == 1) call(*communicator);  // rank 0 leaves
    });
    REQUIRE(thrown[1]);
    try {
      std::rethrow_exception(thrown[1]);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::rank_failed);
      CHECK_THAT(error.what(), Contains("'" + name + "' failed"));
    }
  }
}
