#pragma once

#include "device/feed.hpp"
#include "train/loss_meter.hpp"
#include "train/options.hpp"
#include "train/session.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace trainctl::train {

/// Loss and metrics of the validation split, exact over batches and ranks.
class Evaluator {
 public:
  Evaluator(const Session& session, const Options& options);

  /// Called after each batch with its number; returns false to give up, on every rank after the
  /// same batch.
  using Watch = std::function<bool(std::int64_t batch)>;
  /// Nothing where it was given up. `limit`: batches at most.
  std::optional<events::Metrics> run(std::optional<std::int64_t> limit, const Watch& watch);

 private:
  const Session& session_;
  at::Device device_;
  std::unique_ptr<device::Feed> feed_;
  std::int64_t runs_ = 0;  // counted as epochs of the loader, so that its workers fetch ahead
};

/// What brings the loader's batches to the device.
std::unique_ptr<device::Feed> make_feed(const data::Loader& loader, const Session& session,
                                        const Options& options);

/// Sums over the ranks and names the values: "train/loss", "train/accuracy", ... Resets the
/// metrics.
events::Metrics collect_metrics(const Session& session, const LossMeter& meter,
                                const std::string& split);

}  // namespace trainctl::train
