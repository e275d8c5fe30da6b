#include "checkpoint/names.hpp"

#include <fmt/format.h>

#include <charconv>

namespace trainctl::checkpoint {
namespace {

constexpr std::string_view kEpoch = "epoch=";
constexpr std::string_view kMid = "-mid";
constexpr std::string_view kStep = "-step=";

std::optional<std::int64_t> number(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure != std::errc() || end != digits.data() + digits.size() || value < 0)
    return std::nullopt;
  return value;
}

}  // namespace

std::string folder_name(const Moment& moment) {
  return fmt::format("{}{:04}{}{}{:06}", kEpoch, moment.epoch_number(),
                     moment.mid_epoch ? kMid : "", kStep, moment.global_step);
}

std::optional<Moment> parse_folder_name(std::string_view name) {
  const std::size_t middle = name.find(kStep);
  if (!name.starts_with(kEpoch) || middle == std::string_view::npos || middle < kEpoch.size())
    return std::nullopt;
  std::string_view digits = name.substr(kEpoch.size(), middle - kEpoch.size());
  const bool mid_epoch = digits.ends_with(kMid);
  if (mid_epoch) digits.remove_suffix(kMid.size());
  const auto epoch = number(digits);
  const auto step = number(name.substr(middle + kStep.size()));
  if (!epoch || !step || (mid_epoch && *epoch == 0)) return std::nullopt;
  const Moment moment{*step, mid_epoch ? *epoch - 1 : *epoch, mid_epoch};
  return folder_name(moment) == name ? std::optional(moment) : std::nullopt;
}

std::string part_name(int rank) { return fmt::format("rank_{}.part", rank); }

}  // namespace trainctl::checkpoint
