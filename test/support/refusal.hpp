#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/io/error_text.hpp"

namespace trainyard::test {

/// The findings of the InputError that `call` throws; none if it throws none.
std::vector<Finding> findings_of(std::invocable auto&& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.findings();
  }
  return {};
}

/// The first finding; an empty one if `call` throws none.
Finding finding_of(std::invocable auto&& call) {
  const std::vector<Finding> findings = findings_of(call);
  return findings.empty() ? Finding{} : findings.front();
}

/// The first finding's code; empty if `call` throws none.
std::string code_of(std::invocable auto&& call) { return finding_of(call).code; }

/// "code: message" of the first finding; empty if `call` throws none.
std::string refusal_of(std::invocable auto&& call) {
  const Finding finding = finding_of(call);
  return finding.code.empty() ? "" : finding.code + ": " + finding.message;
}

/// All findings as the program prints them; empty if `call` throws none.
std::string refusal_text(std::invocable auto&& call) {
  std::string text;
  for (const Finding& finding : findings_of(call)) text += error_text(finding);
  return text;
}

}  // namespace trainyard::test
