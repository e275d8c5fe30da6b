#include "data/loader/epoch_digest.hpp"

#include "base/hash.hpp"

#include <algorithm>

namespace trainctl::data {

EpochDigests digest_epochs(const Pipeline& pipeline, LoaderOptions options, std::int64_t epochs) {
  EpochDigests out;
  out.epochs.resize(static_cast<std::size_t>(epochs));
  for (int rank = 0; rank < options.shard.world_size; ++rank) {
    options.shard.rank = rank;
    Loader loader(pipeline, options);
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      loader.start_epoch(epoch);
      while (const Batch* batch = loader.next()) {
        out.epochs[static_cast<std::size_t>(epoch)] += digest(*batch, loader.layout());
      }
    }
    for (const SkippedSample& sample : loader.skipped()) {
      const auto same = [&](const SkippedSample& one) { return one.name == sample.name; };
      if (std::ranges::none_of(out.skipped, same)) out.skipped.push_back(sample);
    }
  }
  Hasher all;
  for (const std::uint64_t epoch : out.epochs) all.add(epoch);
  out.digest = all.value();
  return out;
}

}  // namespace trainctl::data
