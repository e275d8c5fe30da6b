#include "report/plan/fake_ranks.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::report {
namespace {

constexpr int kLabelWidth = 11;
constexpr std::size_t kMostBuckets = 6;

std::string fact(const std::string& label, const std::string& text, const Style& style) {
  return "  " + paint(pad(label, kLabelWidth, Align::left), Ink::cyan, style) + text + "\n";
}

std::string bytes_text(std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

std::string counted(std::int64_t count, const std::string& word, const std::string& plural) {
  return with_thousands(count) + " " + (count == 1 ? word : plural);
}

std::int64_t samples_per_step(const FakeRanks& fake) {
  return fake.batch_size * fake.ranks * fake.accumulate;
}

std::string length_text(const FakeRanks& fake) {
  std::string text = counted(samples_per_step(fake), "sample", "samples") +
                     " a step: " + with_thousands(fake.batch_size) + " on each rank";
  if (fake.accumulate > 1) text += fmt::format(", {} batches", fake.accumulate);
  text += "; " + counted(fake.steps_per_epoch, "step", "steps") + " an epoch";
  if (fake.epochs) text += ", " + counted(*fake.epochs, "epoch", "epochs");
  if (fake.steps) text += ", " + counted(*fake.steps, "step", "steps") + " in all";
  return text;
}

std::string split_text(const RankSplit& split) {
  std::string text = counted(split.samples, "sample", "samples") + " in " +
                     counted(split.batches, "batch", "batches") + " of each rank; the last has " +
                     with_thousands(split.last_batch) + ", ";
  text += split.last_least == split.last_most
              ? with_thousands(split.last_most) + " on each rank"
              : fmt::format("{} to {} on a rank", with_thousands(split.last_least),
                            with_thousands(split.last_most));
  if (split.left_out > 0)
    text += "; " + counted(split.left_out, "sample is", "samples are") + " left out (drop_last)";
  return text;
}

std::string buckets_text(const std::vector<RankBucket>& buckets) {
  std::string text = counted(static_cast<std::int64_t>(buckets.size()), "bucket", "buckets") + ": ";
  for (std::size_t i = 0; i < std::min(buckets.size(), kMostBuckets); ++i)
    text += fmt::format("{}{} of {} gradient{}", i > 0 ? ", " : "", bytes_text(buckets[i].bytes),
                        buckets[i].parameters, buckets[i].parameters == 1 ? "" : "s");
  return buckets.size() > kMostBuckets ? text + ", ..." : text;
}

std::string memory_text(const FakeRanks& fake) {
  const bool on_cpu = fake.model->device == "cpu";
  return fmt::format("{} for a step on {}, {} of them optimizer state; {} of the host for loading",
                     bytes_text(rank_step_bytes(fake, false)), on_cpu ? "the CPU" : "the GPU",
                     bytes_text(fake.model->optimizer_bytes),
                     bytes_text(static_cast<std::int64_t>(fake.loading_bytes)));
}

std::string sharded_text(const FakeRanks& fake) {
  const std::int64_t kept = rank_step_bytes(fake, true);
  const std::int64_t saved = rank_step_bytes(fake, false) - kept;
  return fmt::format("{} with the optimizer's state sharded ({}): {} less", bytes_text(kept),
                     fake.shards_optimizer ? "as distributed.type says" : "zero1",
                     bytes_text(saved));
}

Json split_json(const RankSplit& split) {
  return {{"name", split.name},
          {"samples", split.samples},
          {"batches", split.batches},
          {"last_batch",
           {{"samples", split.last_batch},
            {"least_of_a_rank", split.last_least},
            {"most_of_a_rank", split.last_most},
            {"ranks_without", split.idle_ranks}}},
          {"left_out", split.left_out}};
}

Json memory_json(const FakeRanks& fake) {
  if (!fake.model) return nullptr;
  return {{"step_bytes", rank_step_bytes(fake, false)},
          {"optimizer_bytes", fake.model->optimizer_bytes},
          {"step_bytes_zero1", rank_step_bytes(fake, true)},
          {"shards_optimizer", fake.shards_optimizer},
          {"loading_bytes", fake.loading_bytes}};
}

}  // namespace

std::int64_t rank_step_bytes(const FakeRanks& fake, bool sharded) {
  if (!fake.model) return 0;
  const events::Measured& model = *fake.model;
  const std::int64_t optimizer = sharded ? fake.optimizer_share : model.optimizer_bytes;
  return model.weight_bytes + model.gradient_bytes + optimizer + model.average_bytes +
         model.activation_bytes + model.batch_bytes + model.kernel_bytes;
}

std::string fake_ranks_text(const FakeRanks& fake, const Style& style) {
  std::string text = fact(fmt::format("{} ranks", fake.ranks), length_text(fake), style);
  for (const RankSplit& split : fake.splits) text += fact(split.name, split_text(split), style);
  if (!fake.buckets.empty()) text += fact("buckets", buckets_text(fake.buckets), style);
  if (fake.model) {
    text += fact("a rank", memory_text(fake), style);
    text += fact("", sharded_text(fake), style);
  }
  for (const std::string& note : fake.notes) text += fact("note", printable(note), style);
  for (const std::string& problem : fake.problems)
    text += fact("ranks", paint("refused", Ink::red, style) + ": " + printable(problem), style);
  if (fake.problems.empty())
    text += fact("ranks",
                 paint("sound", Ink::green, style) +
                     ": nothing that this machine can tell keeps them from training",
                 style);
  return text;
}

Json fake_ranks_json(const FakeRanks& fake) {
  Json splits = Json::array();
  for (const RankSplit& split : fake.splits) splits.push_back(split_json(split));
  Json buckets = Json::array();
  for (const RankBucket& bucket : fake.buckets)
    buckets.push_back({{"parameters", bucket.parameters}, {"bytes", bucket.bytes}});
  return {{"schema", "trainctl.fake_ranks/1"},
          {"ranks", fake.ranks},
          {"batch_size", fake.batch_size},
          {"accumulate_grad_batches", fake.accumulate},
          {"global_batch", fake.batch_size * fake.ranks},
          {"samples_per_step", samples_per_step(fake)},
          {"steps_per_epoch", fake.steps_per_epoch},
          {"epochs", fake.epochs ? Json(*fake.epochs) : Json(nullptr)},
          {"steps", fake.steps ? Json(*fake.steps) : Json(nullptr)},
          {"splits", splits},
          {"buckets", buckets},
          {"memory", memory_json(fake)},
          {"problems", fake.problems},
          {"notes", fake.notes}};
}

}  // namespace trainctl::report
