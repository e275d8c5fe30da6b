#include "base/json.hpp"

#include <cstddef>
#include <utility>
#include <vector>

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<trainctl::Json>;
template class nlohmann::detail::json_sax_dom_parser<trainctl::Json>;
template class nlohmann::detail::json_sax_dom_callback_parser<trainctl::Json>;
template class nlohmann::detail::lexer<trainctl::Json, trainctl::JsonStringInput>;
template class nlohmann::detail::lexer<trainctl::Json, trainctl::JsonViewInput>;
template class nlohmann::detail::parser<trainctl::Json, trainctl::JsonStringInput>;
template class nlohmann::detail::parser<trainctl::Json, trainctl::JsonViewInput>;

namespace trainctl {
namespace {

using Builder = nlohmann::detail::json_sax_dom_parser<Json>;

/// Builds the value of a document, and stops where the document exceeds a limit.
class BoundedBuilder : public Builder {
 public:
  explicit BoundedBuilder(Json& value) : Builder(value, /*allow_exceptions_=*/false) {}

  bool start_object(std::size_t size) {
    keys_.push_back(0);
    return keys_.size() <= kDeepest && Builder::start_object(size);
  }
  bool start_array(std::size_t size) {
    keys_.push_back(0);
    return keys_.size() <= kDeepest && Builder::start_array(size);
  }
  bool end_object() {
    keys_.pop_back();
    return Builder::end_object();
  }
  bool end_array() {
    keys_.pop_back();
    return Builder::end_array();
  }
  bool key(std::string& name) { return ++keys_.back() <= kMostKeys && Builder::key(name); }

 private:
  static constexpr std::size_t kDeepest = 100;
  static constexpr int kMostKeys = 10'000;
  std::vector<int> keys_;  // number of keys so far in each open object, and 0 for each open array
};

}  // namespace

Json parse_json(std::string_view text) {
  Json value;
  BoundedBuilder builder(value);
  return Json::sax_parse(text, &builder) ? std::move(value) : Json(Json::value_t::discarded);
}

std::string to_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trainctl
