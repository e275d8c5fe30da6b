#pragma once

#include "base/json.hpp"
#include "base/state_archive.hpp"

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl {

/// Puts values down as a JSON object; doubles as text, since JSON has no infinities.
class MemoWriter final : public Memo {
 public:
  void value(std::string_view key, Place place) override;
  [[nodiscard]] const Json& json() const { return levels_.front().second; }

 private:
  void enter(std::string_view key) override;
  void leave() override;
  void put(std::string_view key, Json value);

  std::vector<std::pair<std::string, Json>> levels_{{"", Json::object()}};  // the innermost last
};

/// Gives back what a MemoWriter wrote, which outlives it.
class MemoReader final : public Memo {
 public:
  /// Throws Error(checkpoint) where it is no object.
  explicit MemoReader(const Json& json);
  void value(std::string_view key, Place place) override;
  /// All was asked for. Throws Error(checkpoint) naming what is left: nobody knows it.
  void finish() const;

 private:
  struct Level {
    std::string path;  // "" or "epochs."
    const Json* json;
    std::set<std::string, std::less<>> taken;
  };
  void enter(std::string_view key) override;
  void leave() override;
  const Json& take(std::string_view key);

  std::vector<Level> levels_;  // the innermost last
};

/// The plain values of a part, which has a `memorise(Memo&)`.
template <class Part>
Json remember(Part& part) {
  MemoWriter memo;
  part.memorise(memo);
  return memo.json();
}

/// Gives them back to a part that was made from the same options. Throws Error(checkpoint) naming
/// a key that is unknown, missing or of another type.
template <class Part>
void recall(Part& part, const Json& values) {
  MemoReader memo(values);
  part.memorise(memo);
  memo.finish();
}

}  // namespace trainctl
