#include "study/tune/proposal.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace trainctl::study {
namespace {

bool is_of_saving(std::string_view key) { return key.starts_with("checkpoint."); }

}  // namespace

std::optional<TuneCandidate> proposed(const TuneSituation& now, const TuneCandidates& found) {
  constexpr std::array kFurther{"checkpoint.async", "loader.read_ahead"};
  const std::string& setting = now.verdict.setting;
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) return std::nullopt;
  TuneCandidate one{.change = {.key = setting.substr(0, equals),
                               .before = "unset",
                               .value = setting.substr(equals + 1)},
                    .reason = now.verdict.advice,
                    .rule = loss_rule_of(setting.substr(0, equals))};
  const auto same = [&](const TuneCandidate& each) { return each.change.key == one.change.key; };
  if (const auto known = std::ranges::find_if(found.tries, same); known != found.tries.end()) {
    one.change.before = known->change.before;
    return one;
  }
  // Saves weigh more in epochs that are shortened.
  if (is_of_saving(one.change.key) && !now.whole_epochs) return std::nullopt;
  if (std::ranges::find(kFurther, std::string_view(one.change.key)) == kFurther.end())
    return std::nullopt;
  one.change.before = is_of_saving(one.change.key) ? "false" : "0";
  return one;
}

}  // namespace trainctl::study
