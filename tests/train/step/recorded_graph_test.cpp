#include "support/recorded_graph.hpp"

#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <torch/types.h>

using namespace trainctl;

// The fake of a CUDA graph must find what a graph would not repeat.

TEST_CASE("RecordedGraph: a replay repeats the operators on their memory, and no host code") {
  RecordedGraph::Counts counts;
  RecordedGraph graph(counts);
  const at::Tensor x = torch::ones({3}), sum = torch::zeros({3});
  at::Tensor product;
  double factor = 1;
  const std::size_t recorded = graph.record([&] {
    factor *= 2;
    product = x * factor;
    sum.add_(product.view({3, 1}).select(1, 0));
  });
  CHECK(torch::equal(sum, torch::zeros({3})));  // a capture computes nothing
  CHECK(product.isnan().all().item<bool>());
  x.fill_(3);
  graph.replay(recorded);
  CHECK(torch::equal(sum, torch::full({3}, 6.0F)));
  graph.replay(recorded);
  CHECK(torch::equal(sum, torch::full({3}, 12.0F)));
  CHECK(torch::equal(product, torch::full({3}, 6.0F)));
  CHECK(factor == 2);
  CHECK(counts.records == 1);
  CHECK(counts.replays == 2);
}

TEST_CASE("RecordedGraph: a replayed backward pass writes the gradient of the recording") {
  RecordedGraph::Counts counts;
  RecordedGraph graph(counts);
  const at::Tensor weight = torch::full({2, 2}, 2.0).requires_grad_();
  const at::Tensor x = torch::ones({1, 2});
  const std::size_t recorded = graph.record([&] {
    weight.mutable_grad().reset();
    torch::mm(x, weight).square().sum().backward();
  });
  const at::Tensor gradient = weight.grad();
  weight.mutable_grad() = torch::zeros({2, 2});  // as an eager step leaves it
  x.fill_(3);
  graph.replay(recorded);
  CHECK(torch::equal(gradient, torch::full({2, 2}, 72.0F)));
  CHECK(torch::equal(weight.grad(), torch::zeros({2, 2})));
}

TEST_CASE("RecordedGraph: replays draw the random numbers of eager steps, and a capture none") {
  RecordedGraph::Counts counts;
  RecordedGraph graph(counts);
  at::manual_seed(4);
  const at::Tensor first = torch::rand({5}), second = torch::rand({5});
  const at::Tensor drawn = torch::zeros({5});
  at::manual_seed(4);
  const std::size_t recorded = graph.record([&] { drawn.copy_(torch::rand({5})); });
  graph.replay(recorded);
  CHECK(torch::equal(drawn, first));
  graph.replay(recorded);
  CHECK(torch::equal(drawn, second));
}

TEST_CASE("RecordedGraph: a value that the host reads ends the capture, unless it is allowed") {
  RecordedGraph::Counts counts;
  const at::Tensor x = torch::ones({3});
  const auto reads = [&] {
    x.mul_(2);
    (void)x.sum().item<float>();
  };
  RecordedGraph strict(counts);
  CHECK_THROWS_WITH(strict.record(reads), Contains("not permitted") && Contains("scalar"));
  CHECK_THROWS_WITH(strict.record([&] { (void)x.nonzero(); }), Contains("aten::nonzero"));
  CHECK(torch::equal(x, torch::ones({3})));
  RecordedGraph lenient(counts, RecordedGraph::Reads::allowed);
  lenient.replay(lenient.record(reads));
  CHECK(torch::equal(x, torch::full({3}, 2.0F)));
}

TEST_CASE("RecordedGraph: collectives communicate when they are replayed") {
  RankGroup group(2);
  group.run_all([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    RecordedGraph::Counts counts;
    RecordedGraph graph(counts);
    const at::Tensor x = torch::full({2}, rank + 1.0), twice = torch::zeros({2});
    const auto step = [&] {
      communicator->sum(x, "sum");
      twice.copy_(x * 2);
    };
    const std::size_t recorded = graph.record(step);
    expect(torch::equal(x, torch::full({2}, rank + 1.0)), "a capture does not communicate");
    graph.replay(recorded);
    expect(torch::equal(x, torch::full({2}, 3.0)), "the sum");
    graph.replay(recorded);
    expect(torch::equal(twice, torch::full({2}, 12.0)), "the sum of the sums, twice");
  });
}
