"""The folder that the guide of precision_tool expects beside a script. Made by ulpscope precision-tool init."""
