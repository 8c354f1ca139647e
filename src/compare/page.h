/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - the parts of report.html, which are embedded when the program is built. */
#ifndef TW_COMPARE_PAGE_H
#define TW_COMPARE_PAGE_H

extern const char tw_report_head[], tw_report_body[], tw_report_style[], tw_report_script[];
extern const char tw_report_charts[]; /* Chart.js as Debian packages it, MIT licence */

#endif
