// Package supervised keeps an MCP client's connection alive over servers that die.
package supervised
