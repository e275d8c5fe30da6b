#include "study/tune_rules.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "study/tune_offers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace trainctl::study {
namespace {

using namespace tune_keys;

constexpr double kWorthHeadroom = 1.03;  // below it waits are not worth a run
constexpr double kStraggles = 0.25;      // behind the median: beyond what chance does to a rank

struct Rule {
  std::string_view verdict;
  std::array<const char*, 8> keys{};  // null: no further
};

/// The table: a verdict, and the keys that may help, the likeliest first. Names of the same limit
/// in other words stand beside each other.
constexpr std::array kRules{
    Rule{"input_bound", {kWorkers, kCache, kPrefetch, kThreads}},
    Rule{"disk_bound", {kCache, kWorkers, kPrefetch}},
    Rule{"h2d_bound", {kPin, kCache, kPrefetch, kWorkers}},
    Rule{"transfer_bound", {kPin, kCache, kPrefetch, kWorkers}},
    Rule{"allreduce_bound", {kBucket, kThreads, kBatch, kPrecision}},
    Rule{"communication_bound", {kBucket, kThreads, kBatch, kPrecision}},
    Rule{"straggler", {}},
    Rule{"checkpoint_bound", {kSaving}},
    Rule{"evaluation_bound", {kValidation, kWorkers, kThreads}},
    Rule{"compute_bound", {kThreads, kLayout, kPrecision, kGraphs, kBatch}},
    Rule{"optimizer_bound", {kThreads, kGraphs, kBatch}},
    Rule{"overhead_bound", {kGraphs, kThreads, kBatch, kWorkers}},
    Rule{"host_bound", {kGraphs, kThreads, kBatch, kWorkers}},
    Rule{"launch_bound", {kGraphs, kThreads, kBatch, kWorkers}},
    Rule{"balanced", {kThreads, kWorkers, kLayout, kGraphs, kPrecision, kBucket, kBatch}}};

constexpr std::array kWaitKeys{kWorkers, kCache, kPrefetch, kPin};

std::string last_word(std::string_view key) { return std::string(key.substr(key.rfind('.') + 1)); }

/// As the user writes it: the last word, but where that is the end of two keys.
std::string short_name(std::string_view key) {
  return key == kSaving ? std::string(key) : last_word(key);
}

bool wants_leave(std::string_view key) {
  return std::ranges::find(keys_to_allow(), key) != keys_to_allow().end();
}

/// The keys of the verdict. Debugging that was left on and too many threads come first, whatever
/// the verdict, and then the key that it proposes itself.
std::vector<std::string> keys_of(const TuneSituation& now) {
  const auto* rule = std::ranges::find(kRules, now.verdict.name, &Rule::verdict);
  if (rule == kRules.end())
    rule = std::ranges::find(kRules, std::string_view("balanced"), &Rule::verdict);
  std::vector<std::string> keys;
  for (const char* key : rule->keys) {
    if (key != nullptr) keys.emplace_back(key);
  }
  const auto to_front = [&](const std::string& key) {
    std::erase(keys, key);
    keys.insert(keys.begin(), key);
  };
  const std::string proposed = now.verdict.setting.substr(0, now.verdict.setting.find('='));
  if (std::ranges::find(keys, proposed) != keys.end()) to_front(proposed);
  const bool crowded = !now.facts.on_gpu && now.facts.num_threads > now.facts.cores;
  if (crowded && !now.experiment.trainer.num_threads.is_auto()) to_front(kThreads);
  if (now.experiment.trainer.detect_anomaly) to_front(kAnomaly);
  return keys;
}

/// Why none of the key is tried, before its values are looked at.
std::string barred(const std::string& key, const TuneSituation& now) {
  if (wants_leave(key) && !now.allowed.contains(key))
    return fmt::format("it changes the training or what is kept of it: --allow {}",
                       short_name(key));
  if (holds(kWaitKeys, key) && now.verdict.headroom < kWorthHeadroom && !is_starved(now))
    return fmt::format("all waits and overhead gone would give {:.2f}x", now.verdict.headroom);
  return {};
}

void add_pack_advice(const TuneSituation& now, TuneCandidates& found) {
  constexpr std::array kFiles{"image_folder", "image_list", "webdataset"};
  const spec::Dataset& data = now.experiment.dataset;
  if (!is_starved(now) || !holds(kFiles, data.train.dataset.type)) return;
  found.advice.emplace_back(
      "not tried, since it writes a file: 'trainctl data pack CONFIG --out FILE --mode raw' keeps "
      "decoded images for all later runs");
}

void add_advice(const TuneSituation& now, TuneCandidates& found) {
  if (now.verdict.name == "straggler")
    found.advice.push_back(
        fmt::format("one rank takes {:.0f} % longer than the median and the others wait for it: "
                    "look at its machine and at what it runs besides; no key of the file mends it",
                    100 * now.facts.behind));
  if (now.verdict.name == "checkpoint_bound" || now.verdict.name == "evaluation_bound") {
    if (!now.verdict.advice.empty()) found.advice.push_back(now.verdict.advice);
  }
  if (!now.facts.environment.empty())
    found.advice.push_back(
        fmt::format("{} is set and slows every run down: unset it", now.facts.environment));
  add_pack_advice(now, found);
}

}  // namespace

const std::vector<std::string>& keys_to_allow() {
  static const std::vector<std::string> keys{kBatch, kPrecision, kValidation, kSaving};
  return keys;
}

std::set<std::string> allowed_keys(std::string_view list) {
  std::set<std::string> allowed;
  if (list.empty()) return allowed;
  for (const std::string& word : split(list, ',')) {
    const auto key = std::ranges::find_if(keys_to_allow(), [&](const std::string& each) {
      return each == word || last_word(each) == word;
    });
    ENSURE(config, key != keys_to_allow().end(),
           "--allow: '{}' is none of the keys that need it: {}", printable(word),
           fmt::join(keys_to_allow(), ", "));
    allowed.insert(*key);
  }
  return allowed;
}

LossRule loss_rule_of(std::string_view key) {
  constexpr std::array kNear{kThreads, kLayout, kGraphs, kPrecision, kBucket, kAnomaly};
  if (key == kBatch) return LossRule::other;
  return holds(kNear, key) ? LossRule::near : LossRule::same;
}

bool is_cadence(std::string_view key) { return key == kValidation || key == kSaving; }

report::TuneVerdict with_straggler(report::TuneVerdict verdict, const TuneFacts& facts) {
  const bool waits = verdict.name == "allreduce_bound" || verdict.name == "communication_bound";
  if (waits && facts.ranks > 1 && facts.behind >= kStraggles) verdict.name = "straggler";
  return verdict;
}

TuneCandidates tune_candidates(const TuneSituation& situation) {
  TuneCandidates found;
  for (const std::string& key : keys_of(situation)) {
    Offer offer = offer_of(key, situation);
    if (const std::string why = barred(key, situation); !why.empty()) offer = Offer{.none = why};
    if (offer.values.empty()) found.left_out.push_back({key, "", offer.none});
    for (const std::string& value : offer.values)
      found.tries.push_back({{key, offer.before, value}, offer.reason, loss_rule_of(key)});
  }
  add_advice(situation, found);
  return found;
}

}  // namespace trainctl::study
