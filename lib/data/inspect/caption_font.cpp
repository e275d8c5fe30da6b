#include "data/inspect/caption_font.hpp"

#include <algorithm>
#include <string_view>

namespace trainctl::data {
namespace {

// A letter and its rows as octal digits.
constexpr std::array<std::string_view, 45> kLetters{
    "075557", "126227", "271747", "371317", "455711", "574717", "674757", "771222", "875757",
    "975717", "A25755", "B65656", "C34443", "D65556", "E74647", "F74644", "G34553", "H55755",
    "I72227", "J11152", "K55655", "L44447", "M57755", "N57775", "O25552", "P65644", "Q25563",
    "R65655", "S34216", "T72222", "U55557", "V55552", "W55775", "X55255", "Y55222", "Z71247",
    " 00000", "-00700", "_00007", ".00002", ",00024", "/11244", "(12221", ")42224", "+02720",
};
constexpr std::string_view kUnknown = "?71202";

}  // namespace

std::array<std::uint8_t, kLetterHeight> letter_dots(char letter) {
  if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  const auto found = std::ranges::find(kLetters, letter, [](auto text) { return text[0]; });
  const std::string_view text = found == kLetters.end() ? kUnknown : *found;
  std::array<std::uint8_t, kLetterHeight> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::uint8_t>(text[i + 1] - '0');
  return rows;
}

}  // namespace trainctl::data
