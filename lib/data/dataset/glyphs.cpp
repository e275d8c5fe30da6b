#include "data/dataset/glyphs.hpp"

#include <array>
#include <cstddef>

namespace trainctl::data {
namespace {

constexpr GlyphPoint kZeroA[] = {{50, 10}, {68, 15}, {78, 32}, {80, 50}, {78, 68},
                                 {68, 85}, {50, 90}, {32, 85}, {22, 68}, {20, 50},
                                 {22, 32}, {32, 15}, {50, 10}};
constexpr GlyphPoint kZeroB[] = {{56, 10}, {68, 20}, {72, 40}, {68, 64}, {58, 84}, {46, 90},
                                 {34, 82}, {30, 62}, {33, 38}, {42, 18}, {56, 10}};
constexpr Stroke kZeroAStrokes[] = {kZeroA};
constexpr Stroke kZeroBStrokes[] = {kZeroB};
constexpr Glyph kZero[] = {kZeroAStrokes, kZeroBStrokes};

constexpr GlyphPoint kOneA[] = {{50, 10}, {50, 90}};
constexpr GlyphPoint kOneB[] = {{34, 28}, {52, 10}, {52, 90}};
constexpr GlyphPoint kOneC1[] = {{36, 26}, {52, 11}, {52, 90}};
constexpr GlyphPoint kOneC2[] = {{34, 90}, {70, 90}};
constexpr Stroke kOneAStrokes[] = {kOneA};
constexpr Stroke kOneBStrokes[] = {kOneB};
constexpr Stroke kOneCStrokes[] = {kOneC1, kOneC2};
constexpr Glyph kOne[] = {kOneAStrokes, kOneBStrokes, kOneCStrokes};

constexpr GlyphPoint kTwoA[] = {{24, 30}, {30, 16}, {45, 10}, {62, 12}, {74, 24},
                                {74, 38}, {66, 52}, {48, 68}, {24, 90}, {78, 90}};
constexpr GlyphPoint kTwoB[] = {{26, 22}, {42, 10}, {62, 13}, {70, 28}, {62, 48}, {46, 68},
                                {30, 84}, {24, 78}, {36, 74}, {56, 86}, {78, 86}};
constexpr Stroke kTwoAStrokes[] = {kTwoA};
constexpr Stroke kTwoBStrokes[] = {kTwoB};
constexpr Glyph kTwo[] = {kTwoAStrokes, kTwoBStrokes};

constexpr GlyphPoint kThreeA[] = {{24, 18}, {40, 10}, {60, 11}, {74, 22}, {73, 36},
                                  {62, 46}, {46, 49}, {64, 52}, {77, 63}, {76, 78},
                                  {62, 89}, {42, 90}, {24, 82}};
constexpr GlyphPoint kThreeB[] = {{24, 12}, {74, 12}, {48, 44}, {66, 50}, {77, 64},
                                  {74, 80}, {58, 90}, {38, 90}, {23, 80}};
constexpr Stroke kThreeAStrokes[] = {kThreeA};
constexpr Stroke kThreeBStrokes[] = {kThreeB};
constexpr Glyph kThree[] = {kThreeAStrokes, kThreeBStrokes};

constexpr GlyphPoint kFourA[] = {{62, 90}, {62, 10}, {20, 66}, {82, 66}};
constexpr GlyphPoint kFourB1[] = {{28, 12}, {24, 54}, {78, 54}};
constexpr GlyphPoint kFourB2[] = {{68, 14}, {65, 90}};
constexpr Stroke kFourAStrokes[] = {kFourA};
constexpr Stroke kFourBStrokes[] = {kFourB1, kFourB2};
constexpr Glyph kFour[] = {kFourAStrokes, kFourBStrokes};

constexpr GlyphPoint kFiveA[] = {{74, 12}, {34, 12}, {30, 46}, {48, 40}, {66, 44},
                                 {77, 58}, {76, 74}, {62, 88}, {42, 90}, {24, 82}};
constexpr GlyphPoint kFiveB1[] = {{30, 12}, {28, 46}, {54, 42}, {74, 56},
                                  {73, 76}, {56, 90}, {26, 85}};
constexpr GlyphPoint kFiveB2[] = {{30, 12}, {72, 10}};
constexpr Stroke kFiveAStrokes[] = {kFiveA};
constexpr Stroke kFiveBStrokes[] = {kFiveB1, kFiveB2};
constexpr Glyph kFive[] = {kFiveAStrokes, kFiveBStrokes};

constexpr GlyphPoint kSixA[] = {{66, 12}, {46, 22}, {30, 42}, {24, 64}, {30, 82}, {48, 90},
                                {66, 86}, {76, 72}, {72, 56}, {56, 48}, {38, 52}, {26, 64}};
constexpr GlyphPoint kSixB[] = {{56, 10}, {38, 36}, {26, 66}, {36, 88}, {58, 90},
                                {72, 76}, {66, 58}, {46, 54}, {28, 66}};
constexpr Stroke kSixAStrokes[] = {kSixA};
constexpr Stroke kSixBStrokes[] = {kSixB};
constexpr Glyph kSix[] = {kSixAStrokes, kSixBStrokes};

constexpr GlyphPoint kSevenA[] = {{22, 12}, {78, 12}, {46, 90}};
constexpr GlyphPoint kSevenB1[] = {{22, 12}, {78, 12}, {46, 90}};
constexpr GlyphPoint kSevenB2[] = {{36, 50}, {70, 50}};
constexpr GlyphPoint kSevenC[] = {{24, 22}, {26, 13}, {76, 13}, {60, 46}, {50, 90}};
constexpr Stroke kSevenAStrokes[] = {kSevenA};
constexpr Stroke kSevenBStrokes[] = {kSevenB1, kSevenB2};
constexpr Stroke kSevenCStrokes[] = {kSevenC};
constexpr Glyph kSeven[] = {kSevenAStrokes, kSevenBStrokes, kSevenCStrokes};

constexpr GlyphPoint kEightA[] = {{50, 48}, {34, 42}, {26, 30}, {32, 16}, {50, 10}, {68, 16},
                                  {74, 30}, {66, 42}, {50, 48}, {30, 56}, {22, 70}, {30, 85},
                                  {50, 90}, {70, 85}, {78, 70}, {70, 56}, {50, 48}};
constexpr GlyphPoint kEightB[] = {{70, 20}, {52, 10}, {32, 16}, {30, 32}, {50, 46},
                                  {72, 62}, {74, 80}, {52, 90}, {28, 82}, {27, 64},
                                  {50, 46}, {68, 32}, {70, 20}};
constexpr Stroke kEightAStrokes[] = {kEightA};
constexpr Stroke kEightBStrokes[] = {kEightB};
constexpr Glyph kEight[] = {kEightAStrokes, kEightBStrokes};

constexpr GlyphPoint kNineA[] = {{74, 34}, {66, 48}, {48, 52}, {30, 44}, {25, 28}, {34, 14},
                                 {52, 10}, {68, 16}, {75, 32}, {72, 60}, {60, 90}};
constexpr GlyphPoint kNineB[] = {{72, 30}, {60, 46}, {38, 46}, {26, 30}, {36, 14},
                                 {58, 10}, {72, 20}, {73, 30}, {70, 90}};
constexpr Stroke kNineAStrokes[] = {kNineA};
constexpr Stroke kNineBStrokes[] = {kNineB};
constexpr Glyph kNine[] = {kNineAStrokes, kNineBStrokes};

constexpr std::array<std::span<const Glyph>, 10> kDigits{kZero, kOne, kTwo,   kThree, kFour,
                                                         kFive, kSix, kSeven, kEight, kNine};

}  // namespace

std::span<const Glyph> glyphs_of(int digit) { return kDigits[static_cast<std::size_t>(digit)]; }

}  // namespace trainctl::data
