#pragma once

#include "base/json.hpp"
#include "base/state_archive.hpp"

#include <set>

namespace trainctl {

/// Saves values as a JSON object. Doubles become text, since JSON has no infinities.
class StateWriter final : public StateArchive {
 public:
  void value(std::string_view key, ValuePointer target) override;
  [[nodiscard]] bool has(std::string_view /*key*/) const override { return true; }
  [[nodiscard]] const Json& json() const { return levels_.front().second; }

 private:
  void enter(std::string_view key) override;
  void leave() override;
  void put(std::string_view key, Json value);

  std::vector<std::pair<std::string, Json>> levels_{{"", Json::object()}};  // innermost last
};

/// Restores the values that a StateWriter saved. The JSON must outlive the reader.
class StateReader final : public StateArchive {
 public:
  /// Throws Error(checkpoint) if `json` is not an object.
  explicit StateReader(const Json& json);
  void value(std::string_view key, ValuePointer target) override;
  [[nodiscard]] bool has(std::string_view key) const override;
  /// Throws Error(checkpoint) naming a value that was not read.
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

  std::vector<Level> levels_;  // innermost last
};

/// Returns the state of an object that has a `serialize(StateArchive&)`, like a state_dict.
template <class Part>
Json remember(Part& part) {
  StateWriter archive;
  part.serialize(archive);
  return archive.json();
}

/// Restores the state of an object that was created with the same options. Throws Error(checkpoint)
/// naming a key that is unknown, missing or of another type.
template <class Part>
void recall(Part& part, const Json& values) {
  StateReader archive(values);
  part.serialize(archive);
  archive.finish();
}

}  // namespace trainctl
