#pragma once

#include "report/html/html.hpp"
#include "report/text/table.hpp"

// The frame of a page, and the elements that all pages share.

namespace trainctl::report {

enum class Mood { good, bad, waiting };

/// The status in the headline: "ok", "failed (exit 7)", "running".
struct Status {
  std::string text;
  Mood mood = Mood::good;
};

/// One tile below the headline.
struct Fact {
  std::string label;
  std::string value;
  std::string remark = {};  // small text below the value
};

/// A part of the page with its heading.
struct Section {
  std::string id;  // letters and dashes
  std::string title;
  Html content;  // empty: the section is left out
};

struct Page {
  std::string title;
  std::optional<Status> status;
  std::string subtitle;
  std::vector<Fact> facts;         // facts without a value are left out
  std::vector<std::string> notes;  // about missing or damaged files
  std::vector<Section> sections;
  std::string footer;
};

/// Returns one self-contained file; its content security policy forbids every request and allows
/// the script by its hash.
std::string render(const Page& page);

/// Returns a scrollable table. Columns are aligned as they specify, and the first column is the row
/// header.
Html html_table(const Table& table);
Html paragraph(std::string_view text);
/// Returns figures next to each other if there is room; empty for no figures.
Html cards(const std::vector<Html>& figures);
/// Returns a collapsed details element.
Html folded(const std::string& title, const Html& content);
/// Returns a command for copying.
Html command(std::string_view text);

}  // namespace trainctl::report
