#include "base/json.hpp"

#include <array>
#include <utility>

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<trainctl::Json>;
template class nlohmann::detail::json_sax_dom_parser<trainctl::Json>;
template class nlohmann::detail::json_sax_dom_callback_parser<trainctl::Json>;
template class nlohmann::detail::lexer<trainctl::Json, trainctl::JsonStringInput>;
template class nlohmann::detail::lexer<trainctl::Json, trainctl::JsonViewInput>;
template class nlohmann::detail::parser<trainctl::Json, trainctl::JsonStringInput>;
template class nlohmann::detail::parser<trainctl::Json, trainctl::JsonViewInput>;

namespace trainctl {

Json parse_json(std::string_view text) {
  constexpr int kDeepest = 100;
  constexpr int kMostKeys = 10'000;
  std::array<int, kDeepest + 1> keys{};  // of the open object at each depth
  bool bounded = true;
  const auto count = [&](int depth, Json::parse_event_t event, Json& /*parsed*/) {
    using enum Json::parse_event_t;
    const auto level = static_cast<std::size_t>(depth);
    if (event == object_start || event == array_start) bounded = bounded && depth < kDeepest;
    if (bounded && event == object_start) keys[level + 1] = 0;
    if (bounded && event == key) bounded = ++keys[level] <= kMostKeys;
    return bounded;
  };
  Json value = Json::parse(text, count, /*allow_exceptions=*/false);
  return bounded ? std::move(value) : Json(Json::value_t::discarded);
}

std::string to_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trainctl
