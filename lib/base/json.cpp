#include "base/json.hpp"

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<trainctl::Json>;
template class nlohmann::detail::json_sax_dom_parser<trainctl::Json>;
template class nlohmann::detail::json_sax_dom_callback_parser<trainctl::Json>;
template class nlohmann::detail::lexer<trainctl::Json, trainctl::JsonStringInput>;
template class nlohmann::detail::lexer<trainctl::Json, trainctl::JsonViewInput>;
template class nlohmann::detail::parser<trainctl::Json, trainctl::JsonStringInput>;
template class nlohmann::detail::parser<trainctl::Json, trainctl::JsonViewInput>;

namespace trainctl {

std::string to_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trainctl
