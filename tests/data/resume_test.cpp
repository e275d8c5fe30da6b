#include "data/fakes.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

LoaderOptions tile_options(int workers, std::int64_t tile_rows) {
  LoaderOptions options;
  options.batch_size = 5;
  options.num_workers = workers;
  options.tile_rows = tile_rows;
  options.seed = 3;
  return options;
}

std::vector<Copy> rest_of(Loader& loader, std::int64_t epoch, std::int64_t first_batch) {
  std::vector<Copy> batches;
  loader.start_epoch(epoch, first_batch);
  while (const Batch* batch = loader.next()) batches.emplace_back(*batch);
  return batches;
}

}  // namespace

TEST_CASE("Loader: an epoch resumed at any batch has the same remaining batches") {
  for (const bool sampled : {false, true}) {
    for (const int workers : {0, 1, 2, 8}) {
      for (int rank = 0; rank < 2; ++rank) {
        LoaderOptions options = tile_options(workers, workers == 2 ? 2 : 0);
        options.shard = {rank, 2};
        if (sampled) options.sampling = ClassSampling{{}, 70};
        Loader whole(classed(61, 3), options);
        const std::vector<Copy> expected = read_epoch(whole, 4);
        const std::vector<Copy> after = read_epoch(whole, 5);
        Loader resumed(classed(61, 3), options);
        for (std::size_t first = 0; first <= expected.size(); ++first) {
          const auto rest = rest_of(resumed, 4, static_cast<std::int64_t>(first));
          REQUIRE(rest == std::vector<Copy>(expected.begin() + static_cast<std::ptrdiff_t>(first),
                                            expected.end()));
          REQUIRE(read_epoch(resumed, 5) == after);
        }
      }
    }
  }
}

TEST_CASE("start_epoch: a batch after the last one is an error with the number of batches") {
  Loader loader(counting(20), tile_options(0, 0));
  CHECK_THAT(failure_of([&] { loader.start_epoch(0, 5); }),
             Contains("2: cannot start at batch 5: an epoch has 4 batches"));
  CHECK_THAT(failure_of([&] { loader.start_epoch(0, -1); }),
             Contains("2: cannot start at batch -1"));
  loader.start_epoch(0, 4);
  CHECK(loader.next() == nullptr);
}
